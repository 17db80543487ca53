// Goal:   an answer has the form of llama.cpp's server, whole or as events; an error is a plain
//         HTTP error for as long as it can be.
// Method: a responder that writes down what it is told; turns are told by hand.
#include "server/llama/completion_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/chat/turn_headers.h"
#include "server/http/recording_responder_test_util.h"
#include "testing/matchers.h"

namespace attndb::server {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

class LlamaAnswerTest : public ::testing::Test {
 protected:
  LlamaAnswer Answer(bool stream, LogprobForm logprobs = LogprobForm::kNone) const {
    TextRequest asked;
    asked.max_tokens = 9;
    asked.stop = {"end"};
    return LlamaAnswer(responder_, {.stream = stream,
                                    .logprobs = logprobs,
                                    .model = "tiny",
                                    .prompt = "One,",
                                    .settings = GenerationSettings(asked),
                                    .received_seconds = MonotonicSeconds()});
  }
  static TurnStart Start() {
    return {.id = "turn-1", .num_prompt_tokens = 10, .num_cached_tokens = 4, .num_run_tokens = 6};
  }
  static TurnEnd End(llama::FinishReason finish, std::string stopped_by = "") {
    return {.finish = finish, .stop = std::move(stopped_by), .num_tokens = 3};
  }

  std::vector<Json> Events() const {
    std::vector<Json> events;
    for (const std::string& data : responder_->Events()) events.push_back(*ParseJson(data));
    return events;
  }

  std::shared_ptr<RecordingResponder> responder_ = std::make_shared<RecordingResponder>();
};

TEST_F(LlamaAnswerTest, AWholeAnswerHasAllOfIt) {
  LlamaAnswer answer = Answer(/*stream=*/false);
  answer.OnStart(Start());
  answer.OnDelta({.content = " two,\n"});
  answer.OnDelta({.content = " three"});
  answer.OnEnd(End(llama::FinishReason::kStop, "end"), 0);
  const Json json = *ParseJson(responder_->sent->body);
  EXPECT_EQ(json["content"], " two,\n three");
  EXPECT_EQ(json["stop"], true);
  EXPECT_EQ(json["stop_type"], "word");
  EXPECT_EQ(json["stopping_word"], "end");
  EXPECT_EQ(json["tokens_predicted"], 3);
  EXPECT_EQ(json["tokens_evaluated"], 10);
  EXPECT_EQ(json["tokens_cached"], 13);
  EXPECT_EQ(json["prompt"], "One,");
  EXPECT_EQ(json["has_new_line"], true);
  EXPECT_EQ(json["truncated"], false);
  EXPECT_EQ(json["timings"]["cache_n"], 4);
  EXPECT_EQ(json["timings"]["prompt_n"], 6);
  EXPECT_EQ(json["timings"]["predicted_n"], 3);
  EXPECT_EQ(json["generation_settings"]["n_predict"], 9);
  EXPECT_EQ(json["generation_settings"]["stop"], Json::array({"end"}));
  EXPECT_THAT(responder_->sent->headers, Contains(Pair(kContextHeader, "turn-1")));
}

TEST_F(LlamaAnswerTest, EachEndHasItsName) {
  const std::pair<llama::FinishReason, const char*> kEnds[] = {
      {llama::FinishReason::kEnd, "eos"}, {llama::FinishReason::kMaxTokens, "limit"}};
  for (const auto& [finish, name] : kEnds) {
    responder_ = std::make_shared<RecordingResponder>();
    LlamaAnswer answer = Answer(/*stream=*/false);
    answer.OnStart(Start());
    answer.OnEnd(End(finish), 0);
    const Json json = *ParseJson(responder_->sent->body);
    EXPECT_EQ(json["stop_type"], name);
    EXPECT_EQ(json["stopping_word"], "");
  }
}

TEST_F(LlamaAnswerTest, AStreamEndsWithTheObjectThatStops) {
  LlamaAnswer answer = Answer(/*stream=*/true);
  answer.OnStart(Start());
  answer.OnDelta({.content = " two"});
  answer.OnDelta({.content = " three"});
  answer.OnEnd(End(llama::FinishReason::kEnd), 0);
  const std::vector<Json> events = Events();
  ASSERT_EQ(events.size(), 3u) << "no [DONE]";
  EXPECT_EQ(events[0]["content"], " two");
  EXPECT_EQ(events[0]["stop"], false);
  EXPECT_EQ(events[2]["content"], "");
  EXPECT_EQ(events[2]["stop"], true);
  EXPECT_TRUE(responder_->ended);
}

TEST_F(LlamaAnswerTest, EachEventHasTheIdsOfItsTokens) {
  LlamaAnswer answer = Answer(/*stream=*/true);
  answer.OnStart(Start());
  answer.OnChances({{.token = 7}});
  answer.OnDelta({.content = " two"});
  answer.OnChances({{.token = 8}, {.token = 9}});
  answer.OnDelta({.content = " three"});
  answer.OnChances({{.token = 10}});  // A control token, which is no text.
  TurnEnd end = End(llama::FinishReason::kEnd);
  end.tokens = {7, 8, 9, 10, 2};
  answer.OnEnd(end, 0);
  std::vector<Json> tokens;
  for (const Json& event : Events()) {
    tokens.push_back(event["tokens"]);
    EXPECT_FALSE(event.contains("completion_probabilities"));
  }
  EXPECT_THAT(tokens, ElementsAre(Json{7}, Json({8, 9}), Json({10, 2}), Json::array()));
}

TEST_F(LlamaAnswerTest, AStreamHasTheIdsOfTheStopString) {
  LlamaAnswer answer = Answer(/*stream=*/true);
  answer.OnStart(Start());
  answer.OnChances({{.token = 7}});
  answer.OnDelta({.content = " two"});
  TurnEnd end = End(llama::FinishReason::kStop);
  end.tokens = {7, 8, 9};
  answer.OnEnd(end, 0);
  std::vector<Json> tokens;
  for (const Json& event : Events()) tokens.push_back(event["tokens"]);
  EXPECT_THAT(tokens, ElementsAre(Json{7}, Json({8, 9}), Json::array()));
}

TEST_F(LlamaAnswerTest, AWholeAnswerHasTheIdsThatItWasToldAtTheEnd) {
  LlamaAnswer answer = Answer(/*stream=*/false);
  answer.OnStart(Start());
  answer.OnDelta({.content = " two"});
  TurnEnd end = End(llama::FinishReason::kEnd);
  end.tokens = {7, 8, 2};
  answer.OnEnd(end, 0);
  EXPECT_EQ((*ParseJson(responder_->sent->body))["tokens"], Json({7, 8, 2}));
}

TEST_F(LlamaAnswerTest, ProbabilitiesStandBesideTheirTokens) {
  LlamaAnswer answer = Answer(/*stream=*/false, LogprobForm::kProbs);
  answer.OnStart(Start());
  answer.OnChances({{.token = 7, .chance = 0.5, .text = "x", .likeliest = {}}});
  answer.OnDelta({.content = "x"});
  answer.OnEnd(End(llama::FinishReason::kEnd), 0);
  const Json json = *ParseJson(responder_->sent->body);
  ASSERT_EQ(json["completion_probabilities"].size(), 1u);
  EXPECT_EQ(json["completion_probabilities"][0]["id"], 7);
  EXPECT_EQ(json["completion_probabilities"][0]["prob"], 0.5);
}

TEST_F(LlamaAnswerTest, AnErrorIsPlainBeforeTheFirstEvent) {
  LlamaAnswer early = Answer(/*stream=*/true);
  early.OnError(Status::NotFound("nothing"));
  EXPECT_EQ(responder_->sent->status, 404);
  responder_ = std::make_shared<RecordingResponder>();
  LlamaAnswer late = Answer(/*stream=*/true);
  late.OnStart(Start());
  late.OnDelta({.content = "x"});
  late.OnError(Status::IoError("disk"));
  const std::vector<Json> events = Events();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[1]["error"]["message"], "disk");
}

TEST_F(LlamaAnswerTest, ATurnThatIsNotStoredNamesNoContext) {
  LlamaAnswer answer = Answer(/*stream=*/false);
  TurnStart start = Start();
  start.is_kept = false;
  answer.OnStart(start);
  answer.OnEnd(End(llama::FinishReason::kEnd), 0);
  EXPECT_THAT(responder_->sent->headers, IsEmpty());
}

}  // namespace
}  // namespace attndb::server
