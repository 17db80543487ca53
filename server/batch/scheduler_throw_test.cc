// Goal:   an exception of a library on the scheduler's thread ends the turn in which it is thrown,
//         and no other turn.
// Method: a tiny random float32 model; listeners that throw in each of their calls.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <new>
#include <stdexcept>
#include <string_view>

#include "server/batch/batch_test_util.h"
#include "server/batch/scheduler.h"
#include "testing/event.h"
#include "testing/matchers.h"

namespace attndb::server {
namespace {

using ::attndb::test::Event;

enum class Call : uint8_t { kProgress, kStart, kText, kEnd, kRead };

class ThrowingListener final : public TurnListener {
 public:
  ThrowingListener(Call call, bool throws_on_error) : call_(call), on_error_(throws_on_error) {}

  void OnProgress(uint64_t, uint64_t) override { Throw(Call::kProgress); }
  void OnStart(const TurnStart&) override { Throw(Call::kStart); }
  void OnText(std::string_view) override { Throw(Call::kText); }
  void OnEnd(const TurnEnd&) override {
    Throw(Call::kEnd);
    told_.Set();  // It has not thrown.
  }
  void OnRead(llama::LlamaEngine*, Session) override {
    Throw(Call::kRead);
    told_.Set();
  }
  void OnError(const Status& status) override {
    error_ = status;
    told_.Set();
    if (on_error_) throw std::runtime_error("again");
  }

  Status AwaitError() {
    told_.Await();
    return error_;
  }

 private:
  void Throw(Call call) const {
    if (call == call_) throw std::bad_alloc();
  }

  const Call call_;
  const bool on_error_;
  Status error_;
  Event told_;
};

using SchedulerThrowTest = BatchTest;

TEST_F(SchedulerThrowTest, ATurnThatThrowsEndsAlone) {
  Open("llama_bpe");
  StartScheduler();
  for (const Call call : {Call::kProgress, Call::kStart, Call::kText, Call::kEnd, Call::kRead}) {
    SCOPED_TRACE(static_cast<int>(call));
    Event gate;
    const auto first = Add(Request("gate", 1, 999, Greedy(1)), [&gate] { gate.Await(); });
    ASSERT_TRUE(first->AwaitStart());
    TurnRequest request = Request("throws", 5, 1, Greedy(8));
    request.replies = call != Call::kRead;
    const auto throws = std::make_shared<ThrowingListener>(call, call == Call::kText);
    ATTNDB_ASSERT_OK(
        scheduler_->Add(std::make_shared<Turn>(request, NewSession(*db_), request.prompt, throws)));
    // One pass reads both prompts, since nothing of them is known. The other turn ends later.
    const auto other = Add(Request("other", 5, 10 + static_cast<uint64_t>(call), Greedy(16)));
    gate.Set();
    EXPECT_EQ(throws->AwaitError().code(), StatusCode::kResourceExhausted);
    ASSERT_TRUE(other->AwaitEnd());
    ATTNDB_EXPECT_OK(other->error());
    EXPECT_EQ(other->num_tokens(), 16u);
  }
}

}  // namespace
}  // namespace attndb::server
