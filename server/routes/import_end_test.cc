// Goal:   an import reports its own Store: neither the error of another import of its name, nor
//         that its client may soon ask again where the quota is full.
// Method: a tiny model; turns that are held up until the test has changed the store.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/batch/batch_test_util.h"
#include "server/routes/import.h"
#include "server/routes/routes_test_util.h"
#include "testing/event.h"
#include "testing/matchers.h"

namespace attndb::server {
namespace {

using ::testing::HasSubstr;

class AwaitedResponder final : public Responder {
 public:
  void Send(Response response) override {
    sent_ = std::move(response);
    ended_.Set();
  }
  void Begin(Response response) override { sent_ = std::move(response); }
  void Write(std::string piece) override { sent_.body += piece; }
  void End() override { ended_.Set(); }
  bool closed() const override { return false; }
  void OnClosed(std::function<void()> /*then*/) override {}

  Response Await() {
    ended_.Await();
    return sent_;
  }

 private:
  Response sent_;
  test::Event ended_;
};

class ImportEndTest : public BatchTest {
 protected:
  void SetUp() override {
    Open("llama_bpe");
    StartScheduler();
    service_.conversations = &*conversations_;
    service_.scheduler = &*scheduler_;
    service_.engine = &*engine_;
    service_.metrics = &metrics_;
    service_.admission = &admission_;
    service_.log = &log_;
    service_.gate = &memory_;
    service_.appends = &appends_;
    service_.run_later = [](const Call&, const std::function<void()>& work) { work(); };
    service_.run_waiting = [this](const Call&, std::function<void()> work) {
      const std::lock_guard<std::mutex> lock(mutex_);
      waiting_.push_back(std::move(work));
    };
    Block();
  }

  std::shared_ptr<AwaitedResponder> Ask(const std::string& text, bool streams = false) {
    const auto responder = std::make_shared<AwaitedResponder>();
    Call call = CallWith(
        responder,
        ToText(Json{{"name", "book"}, {"text", text}, {"raw", true}, {"stream", streams}}));
    request_ = call.request;
    AnswerImport(&service_, std::move(call));
    return responder;
  }
  // Lets the turns run, and then so many imports wait for their Stores.
  void Finish(size_t num_imports) {
    gate_.Set();
    ASSERT_TRUE(test::Eventually([&] {
      const std::lock_guard<std::mutex> lock(mutex_);
      return waiting_.size() == num_imports;
    }));
    for (const std::function<void()>& work : waiting_) work();
    waiting_.clear();
  }

  std::weak_ptr<const server::Request> request_;  // The last.

 private:
  Service service_;
  Metrics metrics_;
  Admission admission_;
  Appends appends_;
  RequestLog log_{LogFormat::kOff, stderr};
  MemoryGate memory_{0, 8, [](const std::function<void()>& run) { run(); }};
  std::mutex mutex_;
  std::vector<std::function<void()>> waiting_;  // Guarded by mutex_.
};

TEST_F(ImportEndTest, EachOfTwoImportsOfANameReportsItsOwnStore) {
  const auto first = Ask("ba be bi");
  const auto second = Ask("bo bu");
  Finish(2);
  Response stored = first->Await();
  Response refused = second->Await();
  if (stored.status != 200) std::swap(stored, refused);  // Either may end first.
  EXPECT_EQ(stored.status, 200) << stored.body;
  EXPECT_THAT(stored.body, HasSubstr(R"("context":"book")"));
  EXPECT_EQ(refused.status, 409) << refused.body;
  EXPECT_THAT(refused.body, HasSubstr("exists"));
}

// Its body may have 16 MiB, which nobody counts.
TEST_F(ImportEndTest, ATurnThatWaitsHoldsNoRequest) {
  const auto responder = Ask("ba be bi");
  EXPECT_TRUE(request_.expired());
  Finish(1);
  EXPECT_EQ(responder->Await().status, 200);
}

TEST_F(ImportEndTest, AFullQuotaIsNoReasonToAskAgainSoon) {
  const auto responder = Ask("ba be bi");
  ATTNDB_ASSERT_OK(db_->SetQuota(1));
  Finish(1);
  const Response response = responder->Await();
  EXPECT_EQ(response.status, 507) << response.body;
  EXPECT_THAT(response.headers, ::testing::IsEmpty());
}

TEST_F(ImportEndTest, AStreamSaysSoToo) {
  const auto responder = Ask("ba be bi", /*streams=*/true);
  ATTNDB_ASSERT_OK(db_->SetQuota(1));
  Finish(1);
  EXPECT_THAT(responder->Await().body, HasSubstr(R"("code":507)"));
}

}  // namespace
}  // namespace attndb::server
