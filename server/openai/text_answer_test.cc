// Goal:   an answer is what clients of OpenAI's interface expect, whole or as events, and an error
//         is a plain HTTP error for as long as it can be.
// Method: a responder that writes down what it is told; turns are told by hand.
#include "server/openai/text_answer.h"

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
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;

class TextAnswerTest : public ::testing::Test {
 protected:
  TextAnswer Answer(AnswerStyle style) const {
    style.model = "tiny";
    style.created = 1700000000;
    return TextAnswer(responder_, std::move(style));
  }
  static TurnStart Start() {
    return {.id = "turn-1", .num_prompt_tokens = 10, .num_cached_tokens = 4};
  }

  const std::shared_ptr<RecordingResponder> responder_ = std::make_shared<RecordingResponder>();
};

TEST_F(TextAnswerTest, AChatIsAnsweredWhole) {
  TextAnswer answer = Answer({});
  answer.OnStart(Start());
  answer.OnDelta({.content = "Hel"});
  answer.OnDelta({.content = "lo"});
  EXPECT_FALSE(responder_->sent) << "it waits for the end";
  answer.OnEnd({.finish = llama::FinishReason::kEnd, .num_tokens = 3}, /*num_calls=*/0);
  ASSERT_TRUE(responder_->sent);
  EXPECT_EQ(responder_->sent->status, 200);
  EXPECT_EQ(responder_->sent->content_type, "application/json");
  EXPECT_THAT(responder_->sent->headers, ElementsAre(Pair(kContextHeader, "turn-1")));
  EXPECT_EQ(responder_->sent->body,
            R"({"id":"chatcmpl-turn-1","object":"chat.completion","created":1700000000,)"
            R"("model":"tiny","system_fingerprint":null,"choices":[{"index":0,"message":)"
            R"({"role":"assistant","content":"Hello"},"logprobs":null,"finish_reason":"stop"}],)"
            R"("usage":{"prompt_tokens":10,"completion_tokens":3,"total_tokens":13,)"
            R"("prompt_tokens_details":{"cached_tokens":4},)"
            R"("completion_tokens_details":{"reasoning_tokens":0}}})");
}

TEST_F(TextAnswerTest, TheTokensOfTheThinkingAreCounted) {
  TextAnswer answer = Answer({});
  answer.OnStart(Start());
  answer.OnDelta({.reasoning = "Hm.", .content = "Yes"});
  answer.OnEnd({.num_tokens = 9, .num_thinking_tokens = 4}, /*num_calls=*/0);
  const Json usage = Parsed(responder_->sent->body)["usage"];
  EXPECT_EQ(usage["completion_tokens"], 9);
  EXPECT_EQ(usage["completion_tokens_details"]["reasoning_tokens"], 4);
}

TEST_F(TextAnswerTest, ACompletionIsAnsweredWhole) {
  TextAnswer answer = Answer({.is_chat = false});
  answer.OnStart(Start());
  answer.OnDelta({.content = "Hello"});
  answer.OnEnd({.finish = llama::FinishReason::kMaxTokens, .num_tokens = 3}, /*num_calls=*/0);
  ASSERT_TRUE(responder_->sent);
  const Json json = Parsed(responder_->sent->body);
  EXPECT_EQ(json["id"], "cmpl-turn-1");
  EXPECT_EQ(json["object"], "text_completion");
  ASSERT_TRUE(json["choices"].is_array());
  EXPECT_EQ(ToText(json["choices"]),
            R"([{"index":0,"text":"Hello","logprobs":null,"finish_reason":"length"}])");
}

TEST_F(TextAnswerTest, AnAnswerMayBeEmpty) {
  TextAnswer answer = Answer({});
  answer.OnStart(Start());
  answer.OnEnd({.finish = llama::FinishReason::kEnd, .num_tokens = 0}, /*num_calls=*/0);
  ASSERT_TRUE(responder_->sent);
  EXPECT_EQ(Parsed(responder_->sent->body)["choices"][0]["message"]["content"], "");
}

TEST_F(TextAnswerTest, EachReasonToEndHasItsName) {
  const std::vector<std::pair<llama::FinishReason, std::string>> names = {
      {llama::FinishReason::kEnd, "stop"},
      {llama::FinishReason::kStop, "stop"},
      {llama::FinishReason::kMaxTokens, "length"}};
  for (const auto& [reason, name] : names) {
    const auto responder = std::make_shared<RecordingResponder>();
    TextAnswer answer(responder, {});
    answer.OnStart(Start());
    answer.OnEnd({.finish = reason}, /*num_calls=*/0);
    ASSERT_TRUE(responder->sent);
    EXPECT_EQ(Parsed(responder->sent->body)["choices"][0]["finish_reason"], name);
  }
}

TEST_F(TextAnswerTest, AChatsStreamHasRoleThenTextThenReasonThenDone) {
  TextAnswer answer = Answer({.stream = true});
  answer.OnStart(Start());
  EXPECT_FALSE(responder_->begun) << "what fails before the first text is a plain error";
  answer.OnDelta({.content = "Hel"});
  EXPECT_TRUE(responder_->begun);
  answer.OnDelta({.content = "lo"});
  answer.OnEnd({.finish = llama::FinishReason::kMaxTokens, .num_tokens = 2}, /*num_calls=*/0);
  EXPECT_TRUE(responder_->ended);
  EXPECT_EQ(responder_->begun->content_type, "text/event-stream");
  EXPECT_THAT(responder_->begun->headers, Contains(Pair(kContextHeader, "turn-1")));
  EXPECT_THAT(responder_->begun->headers, Contains(Pair("Cache-Control", "no-cache")));

  const std::vector<std::string> events = responder_->Events();
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[4], "[DONE]");
  std::vector<std::string> deltas;
  std::vector<std::string> reasons;
  for (size_t i = 0; i < 4; ++i) {
    const Json json = Parsed(events[i]);
    EXPECT_EQ(json["object"], "chat.completion.chunk");
    EXPECT_EQ(json["id"], "chatcmpl-turn-1");
    EXPECT_FALSE(json.contains("usage"));
    ASSERT_TRUE(json["choices"].is_array());
    ASSERT_EQ(json["choices"].size(), 1u);
    EXPECT_EQ(json["choices"][0]["index"], 0);
    deltas.push_back(ToText(json["choices"][0]["delta"]));
    reasons.push_back(ToText(json["choices"][0]["finish_reason"]));
  }
  EXPECT_EQ(deltas[0], R"({"content":"","role":"assistant"})");
  EXPECT_EQ(deltas[1], R"({"content":"Hel"})");
  EXPECT_EQ(deltas[2], R"({"content":"lo"})");
  EXPECT_EQ(deltas[3], "{}");
  EXPECT_THAT(reasons, ElementsAre("null", "null", "null", R"("length")"));
}

TEST_F(TextAnswerTest, ACompletionsStreamHasNoRole) {
  TextAnswer answer = Answer({.is_chat = false, .stream = true});
  answer.OnStart(Start());
  answer.OnDelta({.content = "Hi"});
  answer.OnEnd({.finish = llama::FinishReason::kEnd, .num_tokens = 1}, /*num_calls=*/0);
  const std::vector<std::string> events = responder_->Events();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(Parsed(events[0])["object"], "text_completion");
  EXPECT_EQ(ToText(Parsed(events[0])["choices"]),
            R"([{"index":0,"text":"Hi","logprobs":null,"finish_reason":null}])");
  EXPECT_EQ(ToText(Parsed(events[1])["choices"]),
            R"([{"index":0,"text":"","logprobs":null,"finish_reason":"stop"}])");
  EXPECT_EQ(events[2], "[DONE]");
}

TEST_F(TextAnswerTest, UsageComesLastIfItIsAskedFor) {
  TextAnswer answer = Answer({.stream = true, .include_usage = true});
  answer.OnStart(Start());
  answer.OnDelta({.content = "Hi"});
  answer.OnEnd({.finish = llama::FinishReason::kEnd, .num_tokens = 2}, /*num_calls=*/0);
  const std::vector<std::string> events = responder_->Events();
  ASSERT_EQ(events.size(), 5u);
  const Json usage = Parsed(events[3]);
  EXPECT_EQ(ToText(usage["choices"]), "[]");
  EXPECT_EQ(usage["usage"]["prompt_tokens"], 10);
  EXPECT_EQ(usage["usage"]["completion_tokens"], 2);
  EXPECT_EQ(usage["usage"]["total_tokens"], 12);
  EXPECT_EQ(usage["usage"]["prompt_tokens_details"]["cached_tokens"], 4);
  EXPECT_EQ(events[4], "[DONE]");
}

TEST_F(TextAnswerTest, AStreamWithoutTextIsAStreamAllTheSame) {
  TextAnswer answer = Answer({.stream = true});
  answer.OnStart(Start());
  answer.OnEnd({.finish = llama::FinishReason::kEnd, .num_tokens = 0}, /*num_calls=*/0);
  EXPECT_TRUE(responder_->ended);
  const std::vector<std::string> events = responder_->Events();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(Parsed(events[0])["choices"][0]["delta"]["role"], "assistant");
  EXPECT_EQ(Parsed(events[1])["choices"][0]["finish_reason"], "stop");
}

TEST_F(TextAnswerTest, AnErrorBeforeTheFirstTextIsAPlainError) {
  for (const bool stream : {false, true}) {
    const auto responder = std::make_shared<RecordingResponder>();
    TextAnswer answer(responder, {.stream = stream});
    answer.OnStart(Start());
    answer.OnError(Status::ResourceExhausted("no memory"));
    ASSERT_TRUE(responder->sent) << stream;
    EXPECT_EQ(responder->sent->status, 503);
    EXPECT_EQ(Parsed(responder->sent->body)["error"]["message"], "no memory");
    EXPECT_FALSE(responder->begun);
  }
}

TEST_F(TextAnswerTest, AnErrorAfterTheFirstTextIsTheLastEvent) {
  TextAnswer answer = Answer({.stream = true});
  answer.OnStart(Start());
  answer.OnDelta({.content = "Hi"});
  answer.OnError(Status::IoError("the disk is gone"));
  EXPECT_TRUE(responder_->ended);
  const std::vector<std::string> events = responder_->Events();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(Parsed(events[2])["error"]["message"], "the disk is gone");
  EXPECT_EQ(Parsed(events[2])["error"]["code"], 500);
  EXPECT_THAT(events, Not(Contains("[DONE]"))) << "what is cut off is not done";
}

TEST_F(TextAnswerTest, AnErrorAfterTextThatIsNotStreamedIsAPlainError) {
  TextAnswer answer = Answer({});
  answer.OnStart(Start());
  answer.OnDelta({.content = "Hi"});
  answer.OnError(Status::Cancelled("the server stops"));
  ASSERT_TRUE(responder_->sent);
  EXPECT_EQ(responder_->sent->status, 503);
  EXPECT_THAT(responder_->sent->body, Not(HasSubstr("Hi")));
}

TEST_F(TextAnswerTest, TokensThatLeftTheWindowAreSaidInAHeader) {
  TextAnswer answer = Answer({});
  TurnStart start = Start();
  start.num_run_tokens = 3;
  start.num_dropped_tokens = 7;
  answer.OnStart(start);
  answer.OnEnd({.num_dropped_tokens = 9},
               /*num_calls=*/0);  // The reply goes beyond the window, too.
  ASSERT_TRUE(responder_->sent);
  EXPECT_THAT(responder_->sent->headers, Contains(Pair(kDroppedHeader, "9")));
  const Json usage = Parsed(responder_->sent->body)["usage"];
  EXPECT_EQ(usage["dropped_tokens"], 9);
  EXPECT_EQ(usage["run_tokens"], 3) << "4 of 10 were reused, 3 had left";
}

TEST_F(TextAnswerTest, AHeaderSaysWhereThePromptParted) {
  TextAnswer plain = Answer({});
  plain.OnStart(Start());
  plain.OnEnd({}, /*num_calls=*/0);
  EXPECT_THAT(responder_->sent->headers, Not(Contains(::testing::Key(kPartedHeader))));
  responder_->sent.reset();
  TurnStart start = Start();
  start.parted = "2:118";
  TextAnswer parted = Answer({.stream = true});
  parted.OnStart(start);
  parted.OnDelta({.content = "Hi"});
  EXPECT_THAT(responder_->begun->headers, Contains(Pair(kPartedHeader, "2:118")));
}

TEST_F(TextAnswerTest, UsageAndAHeaderCountWhatWasCut) {
  TurnStart start = Start();
  start.num_cut_tokens = 812;
  TextAnswer whole = Answer({});
  whole.OnStart(start);
  whole.OnEnd({}, /*num_calls=*/0);
  EXPECT_THAT(responder_->sent->headers, Contains(Pair(kCutHeader, "812")));
  const Json usage = Parsed(responder_->sent->body)["usage"];
  EXPECT_EQ(usage["prompt_tokens_details"]["cut_tokens"], 812);
  responder_->sent.reset();
  TextAnswer stream = Answer({.stream = true, .include_usage = true});
  stream.OnStart(start);
  stream.OnDelta({.content = "Hi"});
  stream.OnEnd({}, /*num_calls=*/0);
  EXPECT_THAT(responder_->begun->headers, Contains(Pair(kCutHeader, "812")));
  EXPECT_THAT(responder_->Events(), Contains(::testing::HasSubstr(R"("cut_tokens":812)")));
}

TEST_F(TextAnswerTest, AStreamSaysAtItsEndWhatLeftTheWindowMeanwhile) {
  TextAnswer answer = Answer({.stream = true, .include_usage = true});
  TurnStart start = Start();
  start.num_dropped_tokens = 7;
  answer.OnStart(start);
  answer.OnDelta({.content = "Hi"});
  answer.OnEnd({.num_dropped_tokens = 9}, /*num_calls=*/0);
  EXPECT_THAT(responder_->begun->headers, Contains(Pair(kDroppedHeader, "7")));
  const std::vector<std::string> events = responder_->Events();
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(Parsed(events[3])["usage"]["dropped_tokens"], 9);
}

llama::ReplyToken Token(TokenId id, const std::string& text) {
  llama::ReplyToken token;
  token.token = id;
  token.text = text;
  token.chance = -0.5;
  return token;
}

// The ids of the tokens that logprobs have.
std::string IdsOf(const Json& logprobs) {
  if (logprobs.is_null()) return "null";
  std::string ids;
  for (const Json& token : logprobs["content"]) ids += ToText(token["id"]) + " ";
  return ids;
}

TEST_F(TextAnswerTest, AWholeAnswerHasTheLogprobsOfAllTokens) {
  TextAnswer answer = Answer({.logprobs = LogprobForm::kContent});
  answer.OnStart(Start());
  answer.OnChances({Token(1, "Hel")});
  answer.OnDelta({.content = "Hel"});
  answer.OnChances({Token(2, ""), Token(3, "lo")});
  answer.OnDelta({.content = "lo"});
  answer.OnChances({Token(4, "")});
  answer.OnEnd({.finish = llama::FinishReason::kMaxTokens, .num_tokens = 4}, /*num_calls=*/0);
  ASSERT_TRUE(responder_->sent);
  const Json choice = Parsed(responder_->sent->body)["choices"][0];
  EXPECT_EQ(choice["message"]["content"], "Hello");
  EXPECT_EQ(IdsOf(choice["logprobs"]), "1 2 3 4 ");
  EXPECT_EQ(choice["finish_reason"], "length");
}

TEST_F(TextAnswerTest, AWholeAnswerWithoutTokensHasAnEmptyList) {
  TextAnswer answer = Answer({.logprobs = LogprobForm::kContent});
  answer.OnStart(Start());
  answer.OnEnd({}, /*num_calls=*/0);
  EXPECT_EQ(ToText(Parsed(responder_->sent->body)["choices"][0]["logprobs"]),
            R"({"content":[],"refusal":null})");
}

TEST_F(TextAnswerTest, AnEventHasTheLogprobsOfItsTokens) {
  TextAnswer answer =
      Answer({.stream = true, .include_usage = true, .logprobs = LogprobForm::kContent});
  answer.OnStart(Start());
  answer.OnChances({Token(1, "He"), Token(2, "l")});
  answer.OnDelta({.content = "Hel"});
  answer.OnDelta({.content = "l"});  // A part of a token.
  answer.OnChances({Token(3, "lo")});
  answer.OnDelta({.content = "o"});
  answer.OnChances({Token(4, "")});
  answer.OnEnd({.finish = llama::FinishReason::kEnd, .num_tokens = 4}, /*num_calls=*/0);
  std::vector<std::string> ids;
  for (const std::string& event : responder_->Events()) {
    if (event == "[DONE]") break;
    const Json choices = Parsed(event)["choices"];
    ids.push_back(choices.empty() ? "usage" : IdsOf(choices[0]["logprobs"]));
  }
  EXPECT_THAT(ids, ElementsAre("null", "1 2 ", "null", "3 ", "4 ", "usage"));
}

TEST_F(TextAnswerTest, ACompletionsLogprobsAreLists) {
  for (const bool stream : {false, true}) {
    const auto responder = std::make_shared<RecordingResponder>();
    TextAnswer answer(responder,
                      {.is_chat = false, .stream = stream, .logprobs = LogprobForm::kLegacy});
    answer.OnStart(Start());
    answer.OnChances({Token(1, "Hi")});
    answer.OnDelta({.content = "Hi"});
    answer.OnEnd({}, /*num_calls=*/0);
    const std::string body = stream ? responder->Events()[0] : responder->sent->body;
    EXPECT_EQ(ToText(Parsed(body)["choices"][0]["logprobs"]),
              R"({"tokens":["Hi"],"token_logprobs":[-0.5],"top_logprobs":null,"text_offset":[0]})");
  }
}

// A reply that thinks, speaks and calls two tools.
std::vector<ReplyDelta> Calling() {
  return {{.reasoning = "so "},
          {.reasoning = "so", .content = "I "},
          {.content = "look.", .calls = {{.id = "c0", .name = "add", .arguments = "{\"a\""}}},
          {.calls = {{.arguments = ":1}"}, {.index = 1, .id = "c1", .name = "now"}}}};
}

TEST_F(TextAnswerTest, AWholeAnswerHasReasoningContentAndCalls) {
  TextAnswer answer = Answer({});
  answer.OnStart(Start());
  for (const ReplyDelta& delta : Calling()) answer.OnDelta(delta);
  answer.OnEnd({}, /*num_calls=*/2);
  ASSERT_TRUE(responder_->sent);
  const Json choice = Parsed(responder_->sent->body)["choices"][0];
  EXPECT_EQ(ToText(choice["message"]),
            R"({"role":"assistant","reasoning_content":"so so","content":"I look.","tool_calls":[)"
            R"({"id":"c0","type":"function","function":{"name":"add","arguments":"{\"a\":1}"}},)"
            R"({"id":"c1","type":"function","function":{"name":"now","arguments":""}}]})");
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
}

TEST_F(TextAnswerTest, AnAnswerThatOnlyCallsHasNoContent) {
  TextAnswer answer = Answer({});
  answer.OnStart(Start());
  answer.OnDelta({.calls = {{.id = "c0", .name = "now", .arguments = "{}"}}});
  answer.OnEnd({.finish = llama::FinishReason::kMaxTokens}, /*num_calls=*/1);
  const Json choice = Parsed(responder_->sent->body)["choices"][0];
  EXPECT_TRUE(choice["message"].contains("content"));
  EXPECT_TRUE(choice["message"]["content"].is_null());
  EXPECT_EQ(choice["finish_reason"], "length") << "the last call may be cut";
}

TEST_F(TextAnswerTest, AStreamHasReasoningThenContentThenCalls) {
  TextAnswer answer = Answer({.stream = true});
  answer.OnStart(Start());
  for (const ReplyDelta& delta : Calling()) answer.OnDelta(delta);
  answer.OnEnd({}, /*num_calls=*/2);
  std::vector<std::string> deltas;
  for (const std::string& event : responder_->Events()) {
    if (event == "[DONE]") break;
    deltas.push_back(ToText(Parsed(event)["choices"][0]["delta"]));
  }
  EXPECT_THAT(
      deltas,
      ElementsAre(R"({"content":"","role":"assistant"})", R"({"reasoning_content":"so "})",
                  R"({"reasoning_content":"so"})", R"({"content":"I "})", R"({"content":"look."})",
                  R"({"tool_calls":[{"index":0,"id":"c0","type":"function",)"
                  R"("function":{"name":"add","arguments":""}}]})",
                  R"({"tool_calls":[{"index":0,"function":{"arguments":"{\"a\""}}]})",
                  R"({"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]})",
                  R"({"tool_calls":[{"index":1,"id":"c1","type":"function",)"
                  R"("function":{"name":"now","arguments":""}}]})",
                  "{}"));
  EXPECT_EQ(Parsed(responder_->Events()[9])["choices"][0]["finish_reason"], "tool_calls");
}

TEST_F(TextAnswerTest, TheLogprobsOfACallComeWithItsEvents) {
  TextAnswer answer = Answer({.stream = true, .logprobs = LogprobForm::kContent});
  answer.OnStart(Start());
  answer.OnChances({Token(1, "<call>"), Token(2, "add")});
  answer.OnDelta({.calls = {{.id = "c0", .name = "add", .arguments = "{}"}}});
  answer.OnChances({Token(3, "")});
  answer.OnEnd({}, /*num_calls=*/1);
  std::vector<std::string> ids;
  for (const std::string& event : responder_->Events()) {
    if (event != "[DONE]") ids.push_back(IdsOf(Parsed(event)["choices"][0]["logprobs"]));
  }
  EXPECT_THAT(ids, ElementsAre("null", "1 2 ", "null", "3 "));
}

TEST_F(TextAnswerTest, TextOfAnyKindStaysOneEvent) {
  TextAnswer answer = Answer({.stream = true});
  answer.OnStart(Start());
  answer.OnDelta({.content = "a\n\nb\r\ndata: [DONE]\n\n\xC3\xA4\""});
  answer.OnEnd({}, /*num_calls=*/0);
  const std::vector<std::string> events = responder_->Events();
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(Parsed(events[1])["choices"][0]["delta"]["content"],
            "a\n\nb\r\ndata: [DONE]\n\n\xC3\xA4\"");
}

}  // namespace
}  // namespace attndb::server
