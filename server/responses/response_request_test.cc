// Goal:   a body that OpenAI's client types becomes the chat that it says, and each wrong one is
//         refused with its place.
// Method: bodies as the client sends them; for each refusal, one member of a right body is another.
#include "server/responses/response_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "testing/matchers.h"

namespace attndb::server {
namespace {

using ::attndb::test::IsOk;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StartsWith;

Result<ResponseRequest> Read(const std::string& body, ChatMessages before = {}) {
  ATTNDB_ASSIGN_OR_RETURN(const Json json, ParseJson(body));
  ATTNDB_ASSIGN_OR_RETURN(ResponseRequest request, ParseResponse(json));
  ATTNDB_RETURN_IF_ERROR(TakeConversation(std::move(before), &request));
  return request;
}

ResponseRequest Parsed(const std::string& body, ChatMessages before = {}) {
  Result<ResponseRequest> request = Read(body, std::move(before));
  EXPECT_THAT(request, IsOk()) << body;
  return request.ok() ? *std::move(request) : ResponseRequest();
}

std::string Items(const std::string& items) { return R"({"input":[)" + items + "]}"; }
std::string Hi(const std::string& more) { return R"({"input":"Hi",)" + more + "}"; }

std::vector<std::string> Said(const ChatMessages& messages) {
  std::vector<std::string> lines;
  for (const llama::ChatMessage& message : messages) {
    lines.push_back(message.role + ": " + message.content +
                    (message.more.empty() ? "" : " " + message.more));
  }
  return lines;
}

const std::string kCall =
    R"({"type":"function_call","call_id":"c1","name":"get","arguments":"{\"b\": 1}"})";
const std::string kOutput = R"({"type":"function_call_output","call_id":"c1","output":"4"})";

TEST(ResponseRequestTest, ATextIsAMessage) {
  const ResponseRequest request =
      Parsed(R"({"input":"Hi","instructions":"Be brief.","max_output_tokens":9,"model":"m"})");
  EXPECT_THAT(Said(request.text.messages), ElementsAre("system: Be brief.", "user: Hi"));
  EXPECT_THAT(Said(request.conversation), ElementsAre("user: Hi"));
  EXPECT_EQ(request.text.max_tokens, 9u);
  EXPECT_TRUE(request.store);
  EXPECT_TRUE(request.text.truncate);
  EXPECT_THAT(request.previous_id, IsEmpty());
}

TEST(ResponseRequestTest, ItemsOfTheAssistantAreOneMessage) {
  const ResponseRequest request = Parsed(Items(
      R"({"role":"user","content":[{"type":"input_text","text":"A"},)"
      R"({"type":"input_text","text":"B"}]},{"type":"reasoning","id":"r","summary":[],)"
      R"("content":[{"type":"reasoning_text","text":"Hm"}]},{"type":"message","role":"assistant",)"
      R"("id":"m","status":"completed","content":[{"type":"output_text","text":"I look.",)"
      R"("annotations":[]}]},)" +
      kCall + "," + kOutput + R"(,{"role":"developer","content":"D"})"));
  EXPECT_THAT(
      Said(request.text.messages),
      ElementsAre("user: A\nB",
                  R"(assistant: I look. {"reasoning_content":"Hm","tool_calls":[{"id":"c1",)"
                  R"("type":"function","function":{"name":"get","arguments":"{\"b\": 1}"}}]})",
                  R"(tool: 4 {"tool_call_id":"c1"})", "system: D"));
}

TEST(ResponseRequestTest, OutputsMayAnswerThePreviousResponse) {
  const ChatMessages before = {
      {"user", "Hi"},
      {"assistant", "", R"({"tool_calls":[{"id":"c1","type":"function","function":{}}]})"}};
  const ResponseRequest request = Parsed(
      R"({"previous_response_id":"resp_turn-1","instructions":"S","input":[)" + kOutput + "]}",
      before);
  EXPECT_EQ(request.previous_id, "resp_turn-1");
  EXPECT_EQ(Said(request.text.messages).front(), "system: S");
  EXPECT_EQ(request.conversation.size(), 3u);
  EXPECT_FALSE(Read(Items(kOutput)).ok()) << "nothing was called";
}

// Some models count their calls from 0 in each message, and the server gives their ids as they are.
TEST(ResponseRequestTest, IdsOfCallsMayComeAgain) {
  const ResponseRequest request = Parsed(Items(R"({"role":"user","content":"A"},)" + kCall + "," +
                                               kOutput + "," + kCall + "," + kOutput));
  EXPECT_EQ(request.conversation.size(), 5u);
  const ResponseRequest more =
      Parsed(R"({"previous_response_id":"r","input":[)" + kCall + "," + kOutput + "]}",
             request.conversation);
  EXPECT_EQ(more.conversation.size(), 7u);
  EXPECT_FALSE(
      Read(Items(kCall + "," + kOutput + "," + kCall + "," + kOutput + "," + kOutput)).ok());
}

TEST(ResponseRequestTest, MessagesAreTheSameOnceStored) {
  const ResponseRequest request =
      Parsed(Items(R"({"role":"user","content":"A"},)" + kCall + "," + kOutput));
  const Result<ChatMessages> again = MessagesOf(JsonOfMessages(request.conversation));
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(Said(*again), Said(request.conversation));
  EXPECT_FALSE(MessagesOf(Json()).ok());
  EXPECT_FALSE(MessagesOf(Json::array({7})).ok());
  EXPECT_FALSE(MessagesOf(Json::array({Json{{"role", 7}}})).ok());
}

TEST(ResponseRequestTest, ToolsAndFormats) {
  const ResponseRequest request = Parsed(
      Hi(R"("tools":[{"type":"function","name":"get","description":"D","strict":true,)"
         R"("parameters":{"type":"object"}}],"tool_choice":{"type":"function","name":"get"},)"
         R"("parallel_tool_calls":false,"text":{"format":{"type":"json_schema","name":"n",)"
         R"("schema":{"type":"object"}}},"reasoning":{"effort":"low"},"temperature":0.5,)"
         R"("reasoning_budget_tokens":5,"reasoning_budget_message":"So:","top_p":0.5,)"
         R"("logit_bias":{"17":2,"word":false},"stop":["\n"],)"
         R"("truncation":"disabled","store":false,"stream":true)"));
  const llama::ChatOptions& chat = request.text.chat;
  EXPECT_EQ(chat.tools, R"([{"type":"function","function":{"name":"get","description":"D",)"
                        R"("parameters":{"type":"object"}}}])");
  EXPECT_EQ(chat.tool_choice, llama::ToolChoice::kRequired);
  EXPECT_EQ(chat.tool_name, "get");
  EXPECT_EQ(chat.parallel_tool_calls, false);
  EXPECT_EQ(chat.json_schema, R"({"type":"object"})");
  EXPECT_EQ(chat.variables.at("reasoning_effort"), R"("low")");
  EXPECT_EQ(request.text.reasoning_budget, 5);
  EXPECT_EQ(request.text.reasoning_message, "So:");
  EXPECT_EQ(request.text.sampler.temperature, 0.5f);
  ASSERT_EQ(request.text.logit_bias.size(), 2u);
  EXPECT_EQ(request.text.logit_bias[1].text, "word");
  EXPECT_THAT(request.text.stop, ElementsAre("\n"));
  EXPECT_FALSE(request.text.truncate || request.store);
  EXPECT_TRUE(request.text.stream);
  EXPECT_EQ(Parsed(Hi(R"("reasoning":{"effort":"none"})")).text.chat.enable_thinking, false);
}

TEST(ResponseRequestTest, APreviousIdIsFoundInAnyBody) {
  EXPECT_EQ(PreviousIdIn(Json{{"previous_response_id", "resp_a"}}), "resp_a");
  for (const Json& body : {Json(), Json::array(), Json("previous_response_id"),
                           Json{{"input", "Hi"}}, Json{{"previous_response_id", 7}}}) {
    EXPECT_EQ(PreviousIdIn(body), "") << body;
  }
}

TEST(ResponseRequestTest, WhatIsWrongNamesItsPlace) {
  const std::pair<std::string, std::string> wrongs[] = {
      {"[]", "the body is no JSON object"},
      {"{}", "'input' is []"},
      {R"({"input":7})", "'input' is 7"},
      {Hi(R"("instructions":7)"), "'instructions' is 7"},
      {Hi(R"("background":true)"), "'background': it is not supported"},
      {Hi(R"("conversation":"c")"), "'conversation': it is not supported"},
      {Hi(R"("include":["message.output_text.logprobs"])"), "'include[0]': logprobs"},
      {Hi(R"("max_output_tokens":0)"), "'max_output_tokens' is 0"},
      {Hi(R"("truncation":"some")"), "'truncation' is \"some\""},
      {Hi(R"("edits":"some")"), "'edits' is \"some\""},
      {Hi(R"("temperature":-1)"), "'temperature' is -1"},
      {Hi(R"("store":1)"), "'store' is 1"},
      {Hi(R"("previous_response_id":1)"), "'previous_response_id' is 1"},
      {Hi(R"("metadata":1)"), "'metadata' is 1"},
      {Hi(R"("reasoning":{"effort":1})"), "'reasoning.effort' is 1"},
      {Hi(R"("text":{"format":{"type":"xml"}})"), "'text.format.type' is \"xml\""},
      {Hi(R"("text":{"format":{"type":"json_schema"}})"), "'text.format.schema' is null"},
      {Hi(R"("tools":[{"type":"web_search"}])"), "'tools[0]': tools of type \"web_search\""},
      {Hi(R"("tools":[{"type":"function","name":"a b"}])"), "'tools[0].name' is \"a b\""},
      {Hi(R"("tool_choice":"required")"), "'tool_choice': there are no tools"},
      {Hi(R"("tool_choice":"all")"), "'tool_choice' is \"all\""},
      {Items("7"), "'input[0]' is 7"},
      {Items(R"({"type":"item_reference","id":"x"})"), "'input[0]': items of type"},
      {Items(R"({"role":"tool","content":"x"})"), "'input[0].role' is \"tool\""},
      {Items(R"({"role":"user"})"), "'input[0].content' is null"},
      {Items(R"({"role":"user","content":[{"type":"input_image","image_url":"x"}]})"),
       "'input[0].content[0]': parts of type \"input_image\""},
      {Items(R"({"type":"function_call","call_id":"c","name":"n"})"),
       "'input[0].arguments' is null"},
      {Items(kOutput), "'input[0].call_id': there is no function_call"},
      {Items(kCall + "," + kOutput + "," + kOutput),
       "'input[2].call_id': the function_call \"c1\" has an output already"},
  };
  for (const auto& [body, error] : wrongs) {
    const Result<ResponseRequest> request = Read(body);
    ASSERT_FALSE(request.ok()) << body;
    EXPECT_EQ(request.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(request.status().message(), StartsWith(error)) << body;
  }
}

}  // namespace
}  // namespace attndb::server
