// Goal:   the log and the metrics have the status that the client gets, also where an answer can't
//         be written at its end.
// Method: a writer that refuses its end, and one that does not, behind what notes ends.
#include "server/routes/counted_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace attndb::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class EndingWriter final : public ReplyWriter {
 public:
  explicit EndingWriter(Status status) : status_(std::move(status)) {}
  void OnStart(const TurnStart& /*start*/) override {}
  void OnDelta(const ReplyDelta& /*delta*/) override {}
  Status CheckEnd() const override { return status_; }
  void OnEnd(const TurnEnd& /*end*/, size_t /*num_calls*/) override { calls.emplace_back("end"); }
  void OnError(const Status& status) override { calls.push_back(status.message()); }

  std::vector<std::string> calls;

 private:
  const Status status_;
};

class NotedAnswerTest : public ::testing::Test {
 protected:
  // Ends an answer. Returns what its writer was told.
  std::vector<std::string> End(const Status& status) {
    service_.metrics = &metrics_;
    service_.log = &log_;
    Call call;
    call.route = "/v1/messages";
    const auto writer = std::make_shared<EndingWriter>(status);
    const auto end = std::make_shared<NotedEnd>(&service_, call, TextRequest(), 1);
    NotedAnswer(end, writer).OnEnd({.num_tokens = 3}, 0);
    return writer->calls;
  }

  Metrics metrics_;
  RequestLog log_{LogFormat::kOff, stderr};
  Service service_;
};

TEST_F(NotedAnswerTest, AnEndIsNotedAsSuch) {
  EXPECT_THAT(End(Status::Ok()), ElementsAre("end"));
  EXPECT_THAT(metrics_.Render({}), HasSubstr(R"(status="200"} 1)"));
}

TEST_F(NotedAnswerTest, AnEndThatCannotBeWrittenIsNotedAsTheErrorThatTheClientGets) {
  EXPECT_THAT(End(Status::Internal("too wide")), ElementsAre("too wide"));
  const std::string text = metrics_.Render({});
  EXPECT_THAT(text, HasSubstr(R"(status="500"} 1)"));
  EXPECT_THAT(text, Not(HasSubstr(R"(status="200")")));
}

}  // namespace
}  // namespace attndb::server
