// Goal:   an answer is what Anthropic's clients expect, whole or as events: blocks one behind the
//         other, a reason to stop, and what of the prompt was reused.
// Method: a responder that writes down what it is told; replies are told by hand.
#include "server/anthropic/message_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/chat/turn_headers.h"
#include "server/http/recording_responder_test_util.h"
#include "server/openai/text_request.h"
#include "testing/matchers.h"

namespace attndb::server {
namespace {

using ::attndb::test::FailsWith;
using ::attndb::test::IsOk;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

class MessageAnswerTest : public ::testing::Test {
 protected:
  MessageAnswer Answer(bool stream, std::vector<std::string> stops = {}) const {
    return MessageAnswer(responder_, {.stream = stream,
                                      .model = "tiny",
                                      .request_id = "r1",
                                      .stop_sequences = std::move(stops)});
  }
  static TurnStart Start() {
    return {.id = "turn-1", .num_prompt_tokens = 10, .num_cached_tokens = 4, .num_run_tokens = 6};
  }
  static ReplyDelta Call(size_t index, const std::string& id, const std::string& name,
                         const std::string& arguments) {
    return {.calls = {{.index = index, .id = id, .name = name, .arguments = arguments}}};
  }

  // The events' data; each event is of the type that its data has.
  std::vector<std::string> Events() const {
    std::vector<std::string> events;
    for (const auto& [type, data] : responder_->TypedEvents()) {
      events.push_back(data);
      const Result<Json> json = ParseJson(data);
      EXPECT_THAT(json, IsOk()) << data;
      if (!json.ok()) continue;
      EXPECT_EQ((*json)["type"], type);
    }
    return events;
  }
  // The stop reason and the stop sequence of an answer that ends so.
  std::string StopOf(const TurnEnd& end, size_t num_calls, std::vector<std::string> stops = {}) {
    const auto responder = std::make_shared<RecordingResponder>();
    MessageAnswer answer(responder, {.stop_sequences = std::move(stops)});
    answer.OnStart(Start());
    answer.OnEnd(end, num_calls);
    const Result<Json> json = ParseJson(responder->sent->body);
    EXPECT_THAT(json, IsOk());
    return ToText((*json)["stop_reason"]) + " " + ToText((*json)["stop_sequence"]);
  }

  const std::shared_ptr<RecordingResponder> responder_ = std::make_shared<RecordingResponder>();
};

TEST_F(MessageAnswerTest, AReplyIsAnsweredWhole) {
  MessageAnswer answer = Answer(false);
  answer.OnStart(Start());
  answer.OnDelta({.content = "Hel"});
  answer.OnDelta({.content = "lo"});
  EXPECT_FALSE(responder_->sent) << "it waits for the end";
  answer.OnEnd({.finish = llama::FinishReason::kEnd, .num_tokens = 3}, 0);
  ASSERT_TRUE(responder_->sent);
  EXPECT_EQ(responder_->sent->status, 200);
  EXPECT_THAT(responder_->sent->headers, ElementsAre(Pair(kContextHeader, "turn-1")));
  EXPECT_EQ(responder_->sent->body,
            R"({"id":"msg_turn-1","type":"message","role":"assistant","model":"tiny",)"
            R"("content":[{"type":"text","text":"Hello"}],"stop_reason":"end_turn",)"
            R"("stop_sequence":null,"usage":{"input_tokens":0,"cache_creation_input_tokens":6,)"
            R"("cache_read_input_tokens":4,"output_tokens":3}})");
}

TEST_F(MessageAnswerTest, AWholeAnswerHasThinkingTextAndCalls) {
  MessageAnswer answer = Answer(false);
  answer.OnStart(Start());
  answer.OnDelta({.reasoning = "Hm"});
  answer.OnDelta({.reasoning = "m.", .content = "I look."});
  answer.OnDelta(Call(0, "7", "get", R"({"b":1,)"));
  answer.OnDelta(Call(0, "", "", R"("a":2})"));
  answer.OnDelta(Call(1, "8", "now", ""));
  answer.OnEnd({.finish = llama::FinishReason::kEnd, .num_tokens = 3}, 2);
  const Result<Json> json = ParseJson(responder_->sent->body);
  ASSERT_THAT(json, IsOk());
  EXPECT_EQ(ToText((*json)["content"]),
            R"([{"type":"thinking","thinking":"Hmm.","signature":"attndb"},)"
            R"({"type":"text","text":"I look."},)"
            R"({"type":"tool_use","id":"toolu_7","name":"get","input":{"b":1,"a":2}},)"
            R"({"type":"tool_use","id":"toolu_8","name":"now","input":{}}])");
  EXPECT_EQ((*json)["stop_reason"], "tool_use");
}

TEST_F(MessageAnswerTest, ACallThatWasCutHasNoInput) {
  MessageAnswer answer = Answer(false);
  answer.OnStart(Start());
  answer.OnDelta(Call(0, "7", "get", R"({"b":)"));
  answer.OnEnd({.finish = llama::FinishReason::kMaxTokens, .num_tokens = 3}, 1);
  EXPECT_THAT(responder_->sent->body, HasSubstr(R"("name":"get","input":{}}])"));
  EXPECT_THAT(responder_->sent->body, HasSubstr(R"("stop_reason":"max_tokens")"));
}

// An object of so many members.
std::string WideObject(size_t num_members) {
  std::string text = "{";
  for (size_t i = 0; i < num_members; ++i) {
    text += (i == 0 ? "\"m" : ",\"m") + std::to_string(i) + "\":1";
  }
  return text + "}";
}

TEST_F(MessageAnswerTest, AWideInputIsGivenUpToTheLimit) {
  MessageAnswer answer = Answer(false);
  answer.OnStart(Start());
  answer.OnDelta(Call(0, "7", "get", WideObject(kMaxSchemaMembers)));
  EXPECT_THAT(answer.CheckEnd(), IsOk());
  answer.OnEnd({.finish = llama::FinishReason::kEnd, .num_tokens = 3}, 1);
  ASSERT_TRUE(responder_->sent);
  EXPECT_THAT(responder_->sent->body, HasSubstr(R"("m1023":1)"));
  const Json content = ReadOwnJson(responder_->sent->body)["content"];
  EXPECT_THAT(ParseJson(R"({"messages":[{"content":)" + ToText(content) + "}]}", kWideFields),
              IsOk())
      << "the next request has the input";
}

TEST_F(MessageAnswerTest, AnInputBeyondTheLimitIsAnError) {
  MessageAnswer answer = Answer(false);
  answer.OnStart(Start());
  answer.OnDelta(Call(0, "7", "get", WideObject(kMaxSchemaMembers + 1)));
  EXPECT_THAT(answer.CheckEnd(),
              FailsWith(StatusCode::kInternal, HasSubstr("an object of more than 1024 members")));
  EXPECT_FALSE(responder_->sent);
}

TEST_F(MessageAnswerTest, BlocksOfAStreamFollowEachOther) {
  MessageAnswer answer = Answer(true);
  answer.OnStart(Start());
  EXPECT_FALSE(responder_->begun) << "what fails now is a plain HTTP error";
  answer.OnDelta({});
  EXPECT_FALSE(responder_->begun);
  answer.OnDelta({.reasoning = "Hm"});
  ASSERT_TRUE(responder_->begun);
  EXPECT_EQ(responder_->begun->content_type, "text/event-stream");
  EXPECT_THAT(responder_->begun->headers, Contains(Pair(kContextHeader, "turn-1")));
  answer.OnDelta({.reasoning = "m.", .content = "I"});
  answer.OnDelta({.content = " look."});
  answer.OnDelta(Call(0, "7", "get", ""));
  answer.OnDelta(Call(0, "", "", "{}"));
  answer.OnDelta(Call(1, "8", "now", "{}"));
  answer.OnEnd({.finish = llama::FinishReason::kEnd, .num_tokens = 9}, 2);
  EXPECT_TRUE(responder_->ended);
  EXPECT_THAT(
      Events(),
      ElementsAre(
          R"({"type":"message_start","message":{"id":"msg_turn-1","type":"message",)"
          R"("role":"assistant","model":"tiny","content":[],"stop_reason":null,)"
          R"("stop_sequence":null,"usage":{"input_tokens":0,"cache_creation_input_tokens":6,)"
          R"("cache_read_input_tokens":4,"output_tokens":0}}})",
          R"({"type":"content_block_start","index":0,"content_block":{"type":"thinking",)"
          R"("thinking":"","signature":""}})",
          R"({"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta",)"
          R"("thinking":"Hm"}})",
          R"({"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta",)"
          R"("thinking":"m."}})",
          R"({"type":"content_block_delta","index":0,"delta":{"type":"signature_delta",)"
          R"("signature":"attndb"}})",
          R"({"type":"content_block_stop","index":0})",
          R"({"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}})",
          R"({"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"I"}})",
          R"({"type":"content_block_delta","index":1,"delta":{"type":"text_delta",)"
          R"("text":" look."}})",
          R"({"type":"content_block_stop","index":1})",
          R"({"type":"content_block_start","index":2,"content_block":{"type":"tool_use",)"
          R"("id":"toolu_7","name":"get","input":{}}})",
          R"({"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta",)"
          R"("partial_json":"{}"}})",
          R"({"type":"content_block_stop","index":2})",
          R"({"type":"content_block_start","index":3,"content_block":{"type":"tool_use",)"
          R"("id":"toolu_8","name":"now","input":{}}})",
          R"({"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta",)"
          R"("partial_json":"{}"}})",
          R"({"type":"content_block_stop","index":3})",
          R"({"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},)"
          R"("usage":{"input_tokens":0,"cache_creation_input_tokens":6,)"
          R"("cache_read_input_tokens":4,"output_tokens":9}})",
          R"({"type":"message_stop"})"));
}

TEST_F(MessageAnswerTest, AnEmptyReplyHasNoBlock) {
  MessageAnswer whole = Answer(false);
  whole.OnStart(Start());
  whole.OnEnd({}, 0);
  EXPECT_THAT(responder_->sent->body, HasSubstr(R"("content":[],"stop_reason":"end_turn")"));

  responder_->sent.reset();
  MessageAnswer stream = Answer(true);
  stream.OnStart(Start());
  stream.OnEnd({}, 0);
  EXPECT_THAT(Events(), SizeIs(3));
  EXPECT_TRUE(responder_->ended);
}

TEST_F(MessageAnswerTest, ReasonsToStop) {
  using llama::FinishReason;
  EXPECT_EQ(StopOf({.finish = FinishReason::kEnd}, 0), R"("end_turn" null)");
  EXPECT_EQ(StopOf({.finish = FinishReason::kEnd}, 1), R"("tool_use" null)");
  EXPECT_EQ(StopOf({.finish = FinishReason::kMaxTokens}, 0), R"("max_tokens" null)");
  EXPECT_EQ(StopOf({.finish = FinishReason::kMaxTokens}, 1), R"("max_tokens" null)");
  EXPECT_EQ(StopOf({.finish = FinishReason::kStop, .stop = "B"}, 0, {"A", "B"}),
            R"("stop_sequence" "B")");
  EXPECT_EQ(StopOf({.finish = FinishReason::kStop, .stop = "<|end|>"}, 0, {"A"}),
            R"("end_turn" null)")
      << "a stop string of the template";
  EXPECT_EQ(StopOf({.finish = FinishReason::kStop, .stop = "<|end|>"}, 2, {}),
            R"("tool_use" null)");
}

TEST_F(MessageAnswerTest, WhatLeftTheWindowIsInput) {
  MessageAnswer answer = Answer(false);
  answer.OnStart({.id = "t",
                  .num_prompt_tokens = 100,
                  .num_cached_tokens = 4,
                  .num_run_tokens = 60,
                  .num_dropped_tokens = 36});
  answer.OnEnd({.num_tokens = 5, .num_dropped_tokens = 40}, 0);
  EXPECT_THAT(responder_->sent->body,
              HasSubstr(R"("usage":{"input_tokens":36,"cache_creation_input_tokens":60,)"
                        R"("cache_read_input_tokens":4,"output_tokens":5,"dropped_tokens":40})"));
  EXPECT_THAT(responder_->sent->headers, Contains(Pair(kDroppedHeader, "40")));
}

TEST_F(MessageAnswerTest, WhatWasCutIsCounted) {
  MessageAnswer answer = Answer(false);
  answer.OnStart({.id = "t",
                  .num_prompt_tokens = 100,
                  .num_cached_tokens = 90,
                  .num_run_tokens = 10,
                  .num_cut_tokens = 812});
  answer.OnEnd({.num_tokens = 5}, 0);
  EXPECT_THAT(responder_->sent->body, HasSubstr(R"("output_tokens":5,"cut_tokens":812})"));
}

TEST_F(MessageAnswerTest, AnErrorBeforeTheFirstEventIsPlain) {
  MessageAnswer answer = Answer(true);
  answer.OnError(Status::NotFound("no such context"));
  ASSERT_TRUE(responder_->sent);
  EXPECT_EQ(responder_->sent->status, 404);
  EXPECT_EQ(responder_->sent->error, "no such context");
}

TEST_F(MessageAnswerTest, AnErrorLaterIsAnEvent) {
  MessageAnswer answer = Answer(true);
  answer.OnStart(Start());
  answer.OnDelta({.content = "I"});
  answer.OnError(Status::ResourceExhausted("no memory"));
  EXPECT_TRUE(responder_->ended);
  EXPECT_EQ(Events().back(),
            R"({"type":"error","error":{"type":"overloaded_error","message":"no memory"},)"
            R"("request_id":"r1"})");
}

}  // namespace
}  // namespace attndb::server
