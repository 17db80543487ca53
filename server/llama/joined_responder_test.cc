// Goal:   the answers to the choices of a request come as one: a list, a stream, or an error.
// Method: a responder that writes down what it is told.
#include "server/llama/joined_responder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "server/http/recording_responder_test_util.h"

namespace attndb::server {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

const Response kNoRoom = {.status = 503, .body = R"({"error":"no room"})"};
const Response kLater = {.status = 500, .body = R"({"error":"later"})"};

class JoinedResponderTest : public ::testing::Test {
 protected:
  std::vector<std::shared_ptr<Responder>> Choices(size_t count) const {
    return JoinedResponders(recorder_, count);
  }
  const std::shared_ptr<RecordingResponder> recorder_ = std::make_shared<RecordingResponder>();
};

TEST_F(JoinedResponderTest, OneChoiceIsAnsweredAsItIs) {
  EXPECT_THAT(Choices(1), ElementsAre(recorder_));
}

TEST_F(JoinedResponderTest, WholeAnswersAreAListInTheOrderOfTheChoices) {
  const auto choices = Choices(3);
  choices[2]->Send({.headers = {{"A", "2"}}, .body = "2"});
  choices[0]->Send({.headers = {{"A", "0"}}, .body = "0"});
  EXPECT_FALSE(recorder_->sent);
  choices[1]->Send({.headers = {{"A", "1"}}, .body = "1"});
  ASSERT_TRUE(recorder_->sent);
  EXPECT_EQ(recorder_->sent->body, "[0,1,2]");
  EXPECT_THAT(recorder_->sent->headers, ElementsAre(Pair("A", "0")));
}

TEST_F(JoinedResponderTest, AnErrorOfAChoiceIsTheAnswer) {
  const auto choices = Choices(3);
  choices[1]->Send(kNoRoom);
  choices[0]->Send({.body = "0"});
  choices[2]->Send(kLater);
  ASSERT_TRUE(recorder_->sent);
  EXPECT_EQ(recorder_->sent->status, 503);
}

TEST_F(JoinedResponderTest, AStreamHasTheEventsOfAllAndEndsWithTheLast) {
  const auto choices = Choices(3);
  choices[2]->Send(kNoRoom);
  choices[1]->Begin({.body = "data: b\n\n"});
  choices[0]->Begin({.body = "data: a\n\n"});
  choices[1]->Write("data: B\n\n");
  choices[1]->End();
  EXPECT_FALSE(recorder_->ended);
  choices[0]->Send(kLater);
  EXPECT_TRUE(recorder_->ended);
  EXPECT_THAT(recorder_->Events(), ElementsAre("b", kNoRoom.body, "a", "B", kLater.body));
}

}  // namespace
}  // namespace attndb::server
