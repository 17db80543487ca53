// Goal:   an answer is what OpenAI's client types for responses, whole or as events: items one
//         behind the other, each whole in the end, and numbers without gaps.
// Method: a responder that writes down what it is told; replies are told by hand.
#include "server/responses/response_answer.h"

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

using ::attndb::test::IsOk;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Pair;

class ResponseAnswerTest : public ::testing::Test {
 protected:
  ResponseAnswer Answer(bool stream) const {
    return ResponseAnswer(
        responder_,
        {.context = "", .model = "tiny", .created = 17, .settings = Json{{"store", true}}}, stream);
  }
  static TurnStart Start() {
    return {.id = "turn-1", .num_prompt_tokens = 10, .num_cached_tokens = 4, .num_run_tokens = 6};
  }
  static ReplyDelta Call(const std::string& id, const std::string& name,
                         const std::string& arguments) {
    return {.calls = {{.index = 0, .id = id, .name = name, .arguments = arguments}}};
  }

  // The events' data. Each is of the type that its data has, and they are numbered.
  std::vector<Json> Events() const {
    std::vector<Json> events;
    for (const auto& [type, data] : responder_->TypedEvents()) {
      Result<Json> json = ParseJson(data);
      EXPECT_THAT(json, IsOk()) << data;
      if (!json.ok()) continue;
      EXPECT_EQ((*json)["type"], type);
      EXPECT_EQ((*json)["sequence_number"], events.size());
      events.push_back(*std::move(json));
    }
    return events;
  }
  static std::vector<std::string> TypesOf(const std::vector<Json>& events) {
    std::vector<std::string> types;
    for (const Json& event : events) types.push_back(event["type"].get<std::string>());
    return types;
  }

  const std::shared_ptr<RecordingResponder> responder_ = std::make_shared<RecordingResponder>();
};

TEST_F(ResponseAnswerTest, AReplyIsAnsweredWhole) {
  ResponseAnswer answer = Answer(false);
  answer.OnStart(Start());
  answer.OnDelta({.reasoning = "Hm", .content = "Hel"});
  answer.OnDelta({.content = "lo"});
  answer.OnDelta(Call("c", "get", "{}"));
  answer.OnEnd({.finish = llama::FinishReason::kEnd, .num_tokens = 3}, 1);
  ASSERT_TRUE(responder_->sent);
  EXPECT_THAT(responder_->sent->headers, ElementsAre(Pair(kContextHeader, "turn-1")));
  EXPECT_EQ(
      responder_->sent->body,
      R"({"id":"resp_turn-1","object":"response","created_at":17,"status":"completed",)"
      R"("background":false,"error":null,"incomplete_details":null,"model":"tiny","output":[)"
      R"({"id":"rs_turn-1_0","type":"reasoning","summary":[],"content":[)"
      R"({"type":"reasoning_text","text":"Hm"}],"status":"completed"},)"
      R"({"id":"msg_turn-1_1","type":"message","role":"assistant","content":[)"
      R"({"type":"output_text","text":"Hello","annotations":[],"logprobs":[]}],)"
      R"("status":"completed"},{"id":"fc_turn-1_2","type":"function_call","call_id":"c",)"
      R"("name":"get","arguments":"{}","status":"completed"}],"store":true,"usage":)"
      R"({"input_tokens":10,"input_tokens_details":{"cached_tokens":4,"cache_write_tokens":6},)"
      R"("output_tokens":3,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":13}})");
}

TEST_F(ResponseAnswerTest, AReplyThatWasCutIsIncomplete) {
  ResponseAnswer answer = Answer(false);
  answer.OnStart(Start());
  answer.OnDelta({.content = "Hel"});
  answer.OnEnd({.finish = llama::FinishReason::kMaxTokens, .num_tokens = 1}, 0);
  const Result<Json> json = ParseJson(responder_->sent->body);
  ASSERT_THAT(json, IsOk());
  EXPECT_EQ((*json)["status"], "incomplete");
  EXPECT_EQ((*json)["incomplete_details"]["reason"], "max_output_tokens");
  EXPECT_EQ((*json)["output"][0]["status"], "incomplete");
}

TEST_F(ResponseAnswerTest, ItemsOfAStreamFollowEachOther) {
  ResponseAnswer answer = Answer(true);
  answer.OnStart(Start());
  answer.OnDelta({});
  EXPECT_FALSE(responder_->begun) << "what fails now is a plain HTTP error";
  answer.OnDelta({.reasoning = "Hm"});
  answer.OnDelta({.content = "Hel"});
  answer.OnDelta({.content = "lo"});
  answer.OnDelta(Call("c", "get", ""));
  answer.OnDelta(Call("", "", "{}"));
  answer.OnEnd({.finish = llama::FinishReason::kEnd, .num_tokens = 3}, 1);
  EXPECT_TRUE(responder_->ended);
  ASSERT_TRUE(responder_->begun);
  EXPECT_THAT(responder_->begun->headers, Contains(Pair(kContextHeader, "turn-1")));
  const std::vector<Json> events = Events();
  ASSERT_THAT(TypesOf(events),
              ElementsAre("response.created", "response.in_progress", "response.output_item.added",
                          "response.content_part.added", "response.reasoning_text.delta",
                          "response.reasoning_text.done", "response.content_part.done",
                          "response.output_item.done", "response.output_item.added",
                          "response.content_part.added", "response.output_text.delta",
                          "response.output_text.delta", "response.output_text.done",
                          "response.content_part.done", "response.output_item.done",
                          "response.output_item.added", "response.function_call_arguments.delta",
                          "response.function_call_arguments.done", "response.output_item.done",
                          "response.completed"));
  EXPECT_EQ(events[0]["response"]["id"], "resp_turn-1");
  EXPECT_EQ(events[0]["response"]["status"], "in_progress");
  EXPECT_TRUE(events[0]["response"]["usage"].is_null());
  EXPECT_EQ(ToText(events[4]),
            R"({"type":"response.reasoning_text.delta","sequence_number":4,)"
            R"("item_id":"rs_turn-1_0","output_index":0,"content_index":0,"delta":"Hm"})");
  EXPECT_EQ(ToText(events[8]["item"]),
            R"({"id":"msg_turn-1_1","type":"message","role":"assistant","content":[],)"
            R"("status":"in_progress"})");
  EXPECT_EQ(events[12]["text"], "Hello");
  EXPECT_EQ(ToText(events[17]),
            R"({"type":"response.function_call_arguments.done","sequence_number":17,)"
            R"("item_id":"fc_turn-1_2","output_index":2,"name":"get","arguments":"{}"})");
  EXPECT_EQ(events[18]["item"]["call_id"], "c");
  EXPECT_EQ(events[19]["response"]["output"].size(), 3u);
  EXPECT_EQ(events[19]["response"]["usage"]["output_tokens"], 3);
}

TEST_F(ResponseAnswerTest, AStreamThatWasCutIsIncomplete) {
  ResponseAnswer answer = Answer(true);
  answer.OnStart(Start());
  answer.OnDelta({.content = "Hel"});
  answer.OnEnd({.finish = llama::FinishReason::kMaxTokens, .num_tokens = 1}, 0);
  EXPECT_EQ(Events().back()["type"], "response.incomplete");
}

TEST_F(ResponseAnswerTest, ErrorsArePlainFirstAndAnEventLater) {
  ResponseAnswer early = Answer(true);
  early.OnError(Status::NotFound("no such context"));
  ASSERT_TRUE(responder_->sent);
  EXPECT_EQ(responder_->sent->status, 404);

  responder_->sent.reset();
  ResponseAnswer late = Answer(true);
  late.OnStart(Start());
  late.OnDelta({.content = "Hel"});
  late.OnError(Status::IoError("the disk"));
  EXPECT_TRUE(responder_->ended);
  const Json last = Events().back();
  EXPECT_EQ(last["type"], "response.failed");
  EXPECT_EQ(last["response"]["status"], "failed");
  EXPECT_EQ(last["response"]["error"]["message"], "the disk");
}

TEST_F(ResponseAnswerTest, AStoredReplyHasTheSameItems) {
  llama::ReadReply reply = {.content = "Hello", .reasoning = "Hm", .calls = {}};
  reply.calls.push_back({.id = "c", .name = "get", .arguments = "{}"});
  ResponseAnswer answer = Answer(false);
  answer.OnStart(Start());
  answer.OnDelta({.reasoning = "Hm", .content = "Hello"});
  answer.OnDelta(Call("c", "get", "{}"));
  answer.OnEnd({.finish = llama::FinishReason::kEnd, .num_tokens = 3}, 1);
  const Result<Json> json = ParseJson(responder_->sent->body);
  ASSERT_THAT(json, IsOk());
  EXPECT_EQ(ToText((*json)["output"]), ToText(OutputOf(reply, "turn-1", kCompleted)));
}

}  // namespace
}  // namespace attndb::server
