// Goal:   a body that Anthropic's client types becomes the chat that it says, and each wrong one is
//         refused with its place.
// Method: bodies as the client sends them, whole; for each refusal, one member of a right body is
//         another.
#include "server/anthropic/message_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "testing/matchers.h"

namespace attndb::server {
namespace {

using ::attndb::test::IsOk;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TextRequest Parsed(const std::string& body) {
  const Result<Json> json = ParseJson(body);
  EXPECT_THAT(json, IsOk()) << body;
  Result<TextRequest> request = ParseMessages(*json);
  EXPECT_THAT(request, IsOk()) << body;
  return request.ok() ? *std::move(request) : TextRequest();
}

// A request with these members beside the needed ones.
std::string Body(const std::string& more) {
  return R"({"model":"m","max_tokens":16,"messages":[{"role":"user","content":"Hi"}])" +
         (more.empty() ? "" : "," + more) + "}";
}

// A request with these messages.
std::string Chat(const std::string& messages) {
  return R"({"model":"m","max_tokens":16,"messages":[)" + messages + "]}";
}

std::string ErrorOf(const std::string& body) {
  const Result<Json> json = ParseJson(body);
  EXPECT_THAT(json, IsOk()) << body;
  const Result<TextRequest> request = ParseMessages(*json);
  EXPECT_FALSE(request.ok()) << body;
  if (request.ok()) return "";
  EXPECT_EQ(request.status().code(), StatusCode::kInvalidArgument);
  return request.status().message();
}

// Each message on a line: role, content, and the rest if there is one.
std::vector<std::string> Said(const TextRequest& request) {
  std::vector<std::string> lines;
  for (const llama::ChatMessage& message : request.messages) {
    lines.push_back(message.role + ": " + message.content +
                    (message.more.empty() ? "" : " " + message.more));
  }
  return lines;
}

const std::string kTools =
    R"("tools":[{"name":"get_weather","description":"The weather.","input_schema":{)"
    R"("type":"object","properties":{"place":{"type":"string"},"at":{"type":"string"}},)"
    R"("required":["place"]}},)"
    R"({"type":"custom","name":"now","input_schema":{"type":"object"},)"
    R"("cache_control":{"type":"ephemeral"}}])";
const std::string kCall =
    R"({"role":"assistant","content":[{"type":"thinking","thinking":"Where?","signature":"s"},)"
    R"({"type":"redacted_thinking","data":"x"},{"type":"text","text":"I look."},)"
    R"({"type":"tool_use","id":"toolu_1","name":"get_weather","input":{"place":"Oslo","at":"6"}},)"
    R"({"type":"tool_use","id":"b","name":"now","input":{}}]})";

TEST(MessageRequestTest, AShortChatIsTaken) {
  const TextRequest request = Parsed(Body(""));
  EXPECT_THAT(Said(request), ElementsAre("user: Hi"));
  EXPECT_EQ(request.max_tokens, 16u);
  EXPECT_TRUE(request.lowers_max_tokens);
  EXPECT_FALSE(request.stream || request.chat.continues_last);
  EXPECT_EQ(request.sampler.temperature, kDefaultSampler.temperature);
  EXPECT_EQ(request.sampler.top_p, kDefaultSampler.top_p);
  EXPECT_EQ(request.min_ttl_seconds, 0u);
  EXPECT_THAT(request.chat.tools, IsEmpty());
}

TEST(MessageRequestTest, SamplerAndStopsAreTaken) {
  const TextRequest request =
      Parsed(Body(R"("temperature":0.25,"top_p":0.5,"top_k":7,"stop_sequences":["\n\n","END"],)"
                  R"("stream":true,"metadata":{"user_id":"u"},"service_tier":"auto")"));
  EXPECT_EQ(request.sampler.temperature, 0.25f);
  EXPECT_EQ(request.sampler.top_p, 0.5f);
  EXPECT_EQ(request.sampler.top_k, 7);
  EXPECT_THAT(request.stop, ElementsAre("\n\n", "END"));
  EXPECT_TRUE(request.stream);
}

TEST(MessageRequestTest, ZeroTokensReadThePromptAlone) {
  EXPECT_EQ(Parsed(R"({"max_tokens":0,"messages":[{"role":"user","content":"Hi"}]})").max_tokens,
            0u);
}

TEST(MessageRequestTest, TheSystemTextStandsInFront) {
  EXPECT_THAT(Said(Parsed(Body(R"("system":"Be brief.")"))),
              ElementsAre("system: Be brief.", "user: Hi"));
  EXPECT_THAT(
      Said(Parsed(Body(R"("system":[{"type":"text","text":"A"},{"type":"text","text":"B"}])"))),
      ElementsAre("system: A\nB", "user: Hi"));
  EXPECT_THAT(Said(Parsed(Body(R"("system":"")"))), ElementsAre("user: Hi"));
  EXPECT_THAT(Said(Parsed(Body(R"("system":[])"))), ElementsAre("user: Hi"));
}

TEST(MessageRequestTest, MessagesOfOneRoleAreOne) {
  const std::string two = R"({"role":"user","content":"A"},{"role":"user","content":)"
                          R"([{"type":"text","text":"B"},{"type":"text","text":"C"}]})";
  EXPECT_THAT(Said(Parsed(Chat(two))), ElementsAre("user: A\nB\nC"));
  const std::string system = R"({"role":"system","content":"S"},)" + two;
  EXPECT_THAT(Said(Parsed(Chat(R"({"role":"user","content":"Q"},)" + system))),
              ElementsAre("user: Q", "system: S", "user: A\nB\nC"));
}

TEST(MessageRequestTest, CallsAndThinkingAreOfTheAssistantsMessage) {
  const std::string result = R"(,{"role":"user","content":[)"
                             R"({"type":"tool_result","tool_use_id":"toolu_1","content":"4"}]})";
  const TextRequest request = Parsed(Chat(R"({"role":"user","content":"Hi"},)" + kCall + result));
  EXPECT_THAT(
      Said(request),
      ElementsAre("user: Hi",
                  R"(assistant: I look. {"reasoning_content":"Where?","tool_calls":[{"id":"1",)"
                  R"("type":"function","function":{"name":"get_weather",)"
                  R"("arguments":"{\"place\":\"Oslo\",\"at\":\"6\"}"}},{"id":"b",)"
                  R"("type":"function","function":{"name":"now","arguments":"{}"}}]})",
                  R"(tool: 4 {"tool_call_id":"1","name":"get_weather"})"));
}

TEST(MessageRequestTest, ResultsAndTextsKeepTheirOrder) {
  const std::string results =
      R"(,{"role":"user","content":[{"type":"text","text":"First"},{"type":"tool_result",)"
      R"("tool_use_id":"b","is_error":true,"content":[{"type":"text","text":"no"},)"
      R"({"type":"text","text":"clock"}]},{"type":"tool_result","tool_use_id":"toolu_1"},)"
      R"({"type":"text","text":"And"},{"type":"text","text":"then?"}]})";
  const std::vector<std::string> said =
      Said(Parsed(Chat(R"({"role":"user","content":"Hi"},)" + kCall + results)));
  ASSERT_THAT(said, SizeIs(6));
  EXPECT_EQ(said[2], "user: First");
  EXPECT_EQ(said[3],
            "tool: Error: no\nclock "
            R"({"tool_call_id":"b","name":"now"})");
  EXPECT_EQ(said[4], R"(tool:  {"tool_call_id":"1","name":"get_weather"})");
  EXPECT_EQ(said[5], "user: And\nthen?");
}

// Some models count their calls from 0 in each message, and the server gives their ids as they are.
TEST(MessageRequestTest, IdsOfCallsMayComeAgain) {
  const auto call = [](const std::string& name) {
    return R"({"role":"assistant","content":[{"type":"tool_use","id":"toolu_0","name":")" + name +
           R"(","input":{}}]},)";
  };
  const std::string result =
      R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_0"}]})";
  const std::string user = R"({"role":"user","content":"Hi"},)";
  const std::vector<std::string> said =
      Said(Parsed(Chat(user + call("get_weather") + result + "," + call("now") + result)));
  ASSERT_THAT(said, SizeIs(5));
  EXPECT_EQ(said[2], R"(tool:  {"tool_call_id":"0","name":"get_weather"})");
  EXPECT_EQ(said[4], R"(tool:  {"tool_call_id":"0","name":"now"})");
  EXPECT_THAT(ErrorOf(Chat(user + call("now") + result + "," + result)),
              HasSubstr("the tool_use \"toolu_0\" has a result already"));
}

TEST(MessageRequestTest, ALastMessageOfTheAssistantIsContinued) {
  const std::string begun = R"({"role":"user","content":"Hi"},{"role":"assistant","content":)";
  const TextRequest request = Parsed(Chat(begun + R"("Well,"})"));
  EXPECT_TRUE(request.chat.continues_last);
  EXPECT_THAT(Said(request), ElementsAre("user: Hi", "assistant: Well,"));
  const TextRequest empty = Parsed(Chat(begun + R"(""})"));
  EXPECT_FALSE(empty.chat.continues_last);
  EXPECT_THAT(Said(empty), ElementsAre("user: Hi")) << "an empty beginning is none";
}

TEST(MessageRequestTest, ToolsAreInOpenAisForm) {
  const TextRequest request = Parsed(Body(kTools));
  EXPECT_EQ(request.chat.tools,
            R"([{"type":"function","function":{"name":"get_weather","description":"The weather.",)"
            R"("parameters":{"type":"object","properties":{"place":{"type":"string"},)"
            R"("at":{"type":"string"}},"required":["place"]}}},{"type":"function",)"
            R"("function":{"name":"now","parameters":{"type":"object"}}}])");
  EXPECT_EQ(request.chat.tool_choice, llama::ToolChoice::kAuto);
  EXPECT_EQ(request.chat.parallel_tool_calls, std::nullopt);
}

TEST(MessageRequestTest, ChoicesOfTools) {
  const auto choice = [](const std::string& text) {
    return Parsed(Body(kTools + R"(,"tool_choice":)" + text)).chat;
  };
  EXPECT_EQ(choice(R"({"type":"auto"})").tool_choice, llama::ToolChoice::kAuto);
  EXPECT_EQ(choice(R"({"type":"none"})").tool_choice, llama::ToolChoice::kNone);
  EXPECT_EQ(choice(R"({"type":"any"})").tool_choice, llama::ToolChoice::kRequired);
  EXPECT_THAT(choice(R"({"type":"any"})").tool_name, IsEmpty());
  const llama::ChatOptions one =
      choice(R"({"type":"tool","name":"now","disable_parallel_tool_use":true})");
  EXPECT_EQ(one.tool_choice, llama::ToolChoice::kRequired);
  EXPECT_EQ(one.tool_name, "now");
  EXPECT_EQ(one.parallel_tool_calls, false);
  EXPECT_EQ(Parsed(Body(R"("tool_choice":{"type":"auto"})")).chat.tool_choice,
            llama::ToolChoice::kAuto);
}

TEST(MessageRequestTest, ThinkingIsAskedForByBudget) {
  const TextRequest on =
      Parsed(Body(R"("thinking":{"type":"enabled","budget_tokens":15,"display":"summarized"})"));
  EXPECT_EQ(on.chat.enable_thinking, true);
  EXPECT_EQ(on.reasoning_budget, 15);
  EXPECT_EQ(Parsed(Body(R"("thinking":{"type":"disabled"})")).chat.enable_thinking, false);
  const TextRequest adaptive = Parsed(Body(R"("thinking":{"type":"adaptive"})"));
  EXPECT_EQ(adaptive.chat.enable_thinking, std::nullopt);
  EXPECT_EQ(adaptive.reasoning_budget, -1);
}

TEST(MessageRequestTest, OutputIsBoundToASchema) {
  const TextRequest request =
      Parsed(Body(R"("output_config":{"effort":"max","format":{"type":"json_schema","schema":)"
                  R"({"type":"object","properties":{"b":{},"a":{}}}}})"));
  EXPECT_EQ(request.chat.json_schema, R"({"type":"object","properties":{"b":{},"a":{}}})");
  EXPECT_EQ(request.chat.variables.at("reasoning_effort"), R"("high")");
  EXPECT_EQ(
      Parsed(Body(R"("output_config":{"effort":"low"})")).chat.variables.at("reasoning_effort"),
      R"("low")");
}

TEST(MessageRequestTest, TheLongestMarkCounts) {
  const auto ttl = [](const std::string& body) { return Parsed(body).min_ttl_seconds; };
  const std::string five = R"("cache_control":{"type":"ephemeral"})";
  const std::string hour = R"("cache_control":{"type":"ephemeral","ttl":"1h"})";
  EXPECT_EQ(ttl(Body(five)), 300u);
  EXPECT_EQ(ttl(Body(kTools)), 300u);
  EXPECT_EQ(ttl(Body(kTools + R"(,"system":[{"type":"text","text":"A",)" + hour + "}]")), 3600u);
  EXPECT_EQ(ttl(Chat(R"({"role":"user","content":[{"type":"text","text":"A",)" + hour +
                     R"(},{"type":"text","text":"B",)" + five + "}]}")),
            3600u);
  EXPECT_EQ(ttl(Chat(R"({"role":"user","content":[{"type":"text","text":"A",)"
                     R"("cache_control":null}]})")),
            0u);
}

TEST(MessageRequestTest, ACountNeedsNoMaxTokens) {
  const Result<Json> body =
      ParseJson(R"({"messages":[{"role":"user","content":"Hi"}],)" + kTools + R"(,"system":"S"})");
  ASSERT_THAT(body, IsOk());
  const Result<TextRequest> request = ParseTokenCount(*body);
  ASSERT_THAT(request, IsOk());
  EXPECT_THAT(Said(*request), ElementsAre("system: S", "user: Hi"));
  EXPECT_THAT(request->chat.tools, HasSubstr("get_weather"));
  EXPECT_FALSE(ParseTokenCount(Json::array()).ok());
}

struct Wrong {
  std::string body;
  std::string error;  // Its beginning.
};

TEST(MessageRequestTest, WhatIsWrongNamesItsPlace) {
  const std::string image = R"({"type":"image","source":{"type":"url","url":"http://x/y"}})";
  const std::vector<Wrong> wrongs = {
      {"[]", "the body is no JSON object"},
      {R"({"messages":[{"role":"user","content":"Hi"}]})", "'max_tokens' is null"},
      {R"({"max_tokens":-1,"messages":[]})", "'max_tokens' is -1"},
      {R"({"max_tokens":1})", "'messages' is null"},
      {R"({"max_tokens":1,"messages":[]})", "'messages' is []"},
      {Body(R"("temperature":"hot")"), "'temperature' is \"hot\""},
      {Body(R"("top_p":2)"), "'top_p' is 2"},
      {Body(R"("top_k":-1)"), "'top_k' is -1"},
      {Body(R"("stream":1)"), "'stream' is 1"},
      {Body(R"("edits":"some")"), "'edits' is \"some\""},
      {Body(R"("stop_sequences":"END")"), "'stop_sequences' is \"END\""},
      {Body(R"("stop_sequences":["a",""])"), "'stop_sequences.1' is \"\""},
      {Body(R"("container":"c")"), "'container': it is not supported"},
      {Body(R"("mcp_servers":[{"url":"http://x"}])"), "'mcp_servers': it is not supported"},
      {Body(R"("system":7)"), "'system' is 7"},
      {Body(R"("system":[{"type":"text","text":"A"},{"type":"text"}])"), "'system.1.text' is null"},
      {Body(R"("system":[)" + image + "]"), "'system.0': blocks of type \"image\""},
      {Body(R"("cache_control":{"type":"for ever"})"), "'cache_control.type' is \"for ever\""},
      {Body(R"("cache_control":{"type":"ephemeral","ttl":"2h"})"), "'cache_control.ttl' is \"2h\""},
      {Body(R"("thinking":{})"), "'thinking.type' is null"},
      {Body(R"("thinking":{"type":"deep"})"), "'thinking.type' is \"deep\""},
      {Body(R"("thinking":{"type":"enabled"})"), "'thinking.budget_tokens' is null"},
      {Body(R"("thinking":{"type":"enabled","budget_tokens":16})"),
       "'thinking.budget_tokens' is 16, expected fewer than max_tokens"},
      {Body(R"("output_config":{"effort":"most"})"), "'output_config.effort' is \"most\""},
      {Body(R"("output_config":{"format":{"type":"xml"}})"), "'output_config.format.type' is"},
      {Body(R"("output_config":{"format":{"type":"json_schema"}})"),
       "'output_config.format.schema' is null"},
      {Body(R"("tools":{})"), "'tools' is {}"},
      {Body(R"("tools":[{"type":"web_search_20250305","name":"web_search"}])"),
       "'tools.0': tools of type \"web_search_20250305\" are not supported"},
      {Body(R"("tools":[{"name":"","input_schema":{}}])"), "'tools.0.name' is \"\""},
      {Body(R"("tools":[{"input_schema":{}}])"), "'tools.0.name' is null"},
      {Body(R"("tools":[{"name":"a b","input_schema":{}}])"), "'tools.0.name' is \"a b\""},
      {Body(R"("tools":[{"name":"a","input_schema":{}},{"name":"a","input_schema":{}}])"),
       "'tools.1.name': an earlier tool has this name"},
      {Body(R"("tools":[{"name":"a"}])"), "'tools.0.input_schema' is null"},
      {Body(R"("tools":[{"name":"a","input_schema":{},"description":1}])"),
       "'tools.0.description' is 1"},
      {Body(R"("tool_choice":{"type":"any"})"), "'tool_choice': there are no tools"},
      {Body(kTools + R"(,"tool_choice":"any")"), "'tool_choice' is \"any\""},
      {Body(kTools + R"(,"tool_choice":{"type":"all"})"), "'tool_choice.type' is \"all\""},
      {Body(kTools + R"(,"tool_choice":{"type":"tool","name":"fly"})"),
       "'tool_choice.name' is \"fly\""},
  };
  for (const Wrong& wrong : wrongs) {
    EXPECT_THAT(ErrorOf(wrong.body), ::testing::StartsWith(wrong.error)) << wrong.body;
  }
}

TEST(MessageRequestTest, AWrongMessageNamesItsPlace) {
  const std::string user = R"({"role":"user","content":"Hi"},)";
  const std::string image = R"({"type":"image","source":{"type":"url","url":"http://x/y"}})";
  const std::vector<Wrong> wrongs = {
      {Chat("7"), "'messages.0' is 7, expected an object"},
      {Chat(R"({"content":"Hi"})"), "'messages.0.role' is null"},
      {Chat(R"({"role":"tool","content":"Hi"})"), "'messages.0.role' is \"tool\""},
      {Chat(R"({"role":"user"})"), "'messages.0.content' is null"},
      {Chat(R"({"role":"user","content":[]})"), "'messages.0.content' is []"},
      {Chat(R"({"role":"user","content":["Hi"]})"), "'messages.0.content.0' is \"Hi\""},
      {Chat(R"({"role":"user","content":[{"text":"Hi"}]})"), "'messages.0.content.0.type' is null"},
      {Chat(user + R"({"role":"user","content":[{"type":"text","text":"A"},)" + image + "]}"),
       "'messages.1.content.1': blocks of type \"image\" are not supported"},
      {Chat(R"({"role":"user","content":[{"type":"document","source":{}}]})"),
       "'messages.0.content.0': blocks of type \"document\""},
      {Chat(R"({"role":"user","content":[{"type":"tool_use","id":"a","name":"b","input":{}}]})"),
       "'messages.0.content.0': blocks of type \"tool_use\" are not supported in a message of the "
       "user"},
      {Chat(user + R"({"role":"assistant","content":[{"type":"tool_result","tool_use_id":"a"}]})"),
       "'messages.1.content.0': blocks of type \"tool_result\""},
      {Chat(user + R"({"role":"assistant","content":[{"type":"tool_use","id":"a","name":"b",)"
                   R"("input":"x"}]})"),
       "'messages.1.content.0.input' is \"x\""},
      {Chat(user + kCall), "'messages.1': it calls tools, and no result follows"},
      {Chat(user + kCall + "," + kCall), "'messages.2': it calls tools, and no result follows"},
      {Chat(R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]})"),
       "'messages.0.content.0.tool_use_id': there is no tool_use with the id \"a\" before it"},
      {Chat(user + kCall +
            R"(,{"role":"user","content":[{"type":"tool_result","tool_use_id":"b"},)"
            R"({"type":"tool_result","tool_use_id":"b"}]})"),
       "'messages.2.content.1.tool_use_id': the tool_use \"b\" has a result already"},
      {Chat(user + kCall +
            R"(,{"role":"user","content":[{"type":"tool_result","tool_use_id":"b","content":[)" +
            image + "]}]}"),
       "'messages.2.content.0.content.0': blocks of type \"image\""},
      {Chat(user + kCall +
            R"(,{"role":"user","content":[{"type":"tool_result","tool_use_id":"b",)"
            R"("is_error":"yes"}]})"),
       "'messages.2.content.0.is_error' is \"yes\""},
  };
  for (const Wrong& wrong : wrongs) {
    EXPECT_THAT(ErrorOf(wrong.body), ::testing::StartsWith(wrong.error)) << wrong.body;
  }
}

TEST(MessageRequestTest, ManyToolsAndLongTextsAreRefusedInAShortMessage) {
  std::string tools = R"("tools":[)";
  for (int i = 0; i < 10000; ++i) {
    tools +=
        (i == 0 ? "" : ",") + (R"({"name":"t)" + std::to_string(i)) + R"(","input_schema":{}})";
  }
  EXPECT_THAT(ErrorOf(Body(tools + "]")), HasSubstr("expected at most"));
  const std::string long_type(100000, 'x');
  EXPECT_LT(ErrorOf(Chat(R"({"role":"user","content":[{"type":")" + long_type + R"("}]})")).size(),
            300u);
}

}  // namespace
}  // namespace attndb::server
