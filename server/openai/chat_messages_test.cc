// Goal:   messages of every role are read, in the forms in which clients send them; a message that
//         can't be is refused, and the error says which one.
// Method: messages as JSON.
#include "server/openai/chat_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "testing/matchers.h"

namespace attndb::server {
namespace {

using ::attndb::test::FailsWith;
using ::testing::HasSubstr;

Result<std::vector<llama::ChatMessage>> Messages(const std::string& messages) {
  ATTNDB_ASSIGN_OR_RETURN(const Json body, ParseJson(R"({"messages":)" + messages + "}"));
  return ReadMessages(body);
}

// `messages` are refused with an error that says `place`.
void ExpectRefused(const std::string& messages, const std::string& place) {
  EXPECT_THAT(Messages(messages), FailsWith(StatusCode::kInvalidArgument, HasSubstr(place)))
      << messages;
}

// An assistant's message with a call that has these members.
std::string Calling(const std::string& call) {
  return R"({"role":"assistant","content":null,"tool_calls":[)" + call + "]}";
}
std::string Call(const std::string& id) {
  return R"({"id":")" + id + R"(","type":"function","function":{"name":"f","arguments":"{}"}})";
}
std::string ResultOf(const std::string& id) {
  return R"({"role":"tool","tool_call_id":")" + id + R"(","content":"5"})";
}

TEST(ChatMessagesTest, MessagesAreReadInOrder) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      const auto messages,
      Messages(R"([{"role":"system","content":"S"},{"role":"user","content":"U"},)"
               R"({"role":"assistant","content":"A","tool_calls":[]},)"
               R"({"role":"user","content":"V"}])"));
  ASSERT_EQ(messages.size(), 4u);
  const std::vector<std::string> roles = {"system", "user", "assistant", "user"};
  const std::vector<std::string> contents = {"S", "U", "A", "V"};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(messages[i].role, roles[i]);
    EXPECT_EQ(messages[i].content, contents[i]);
    EXPECT_EQ(messages[i].more, "");
  }
}

TEST(ChatMessagesTest, ADeveloperSpeaksAsTheSystem) {
  EXPECT_EQ(Messages(R"([{"role":"developer","content":"x"}])")->front().role, "system");
}

TEST(ChatMessagesTest, ContentsMayComeInParts) {
  const auto content = [](const std::string& text) {
    const auto messages = Messages(R"([{"role":"user","content":)" + text + "}]");
    return messages.ok() ? messages->front().content : messages.status().ToString();
  };
  EXPECT_EQ(content(R"([{"type":"text","text":"a"},{"type":"text","text":"b"}])"), "a\nb");
  EXPECT_EQ(content(R"([{"type":"text","text":"a"}])"), "a");
  EXPECT_EQ(content(R"([{"type":"text","text":""},{"type":"text","text":"b"}])"), "b");
  EXPECT_EQ(content("[]"), "");
  EXPECT_EQ(content("null"), "");
  EXPECT_EQ(content(R"("a\u0000b")"), std::string("a\0b", 3));
}

TEST(ChatMessagesTest, PartsStayPartsForTemplatesThatShowThem) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      const auto messages,
      Messages(R"([{"role":"user","content":[{"text":"a","type":"text","cache_control":{}},)"
               R"({"type":"text","text":""}]},{"role":"user","content":"b"}])"));
  EXPECT_EQ(messages[0].parts, R"([{"type":"text","text":"a"},{"type":"text","text":""}])");
  EXPECT_EQ(messages[1].parts, "");
}

TEST(ChatMessagesTest, PartsThatAreNoTextAreRefused) {
  for (const char* const content :
       {R"([{"type":"image_url","image_url":{"url":"x"}}])",
        R"([{"type":"input_audio","input_audio":{"data":"x"}}])", R"([{"type":"text"}])",
        R"([{"type":"text","text":1}])", R"([{"type":"text","text":null}])", R"([{"text":"a"}])",
        R"([{"type":1,"text":"a"}])", R"(["a"])", "[null]", "[[]]", "1", "true", "{}"}) {
    ExpectRefused(
        R"([{"role":"user","content":"a"},{"role":"user","content":)" + std::string(content) + "}]",
        "'messages[1].content'");
  }
}

TEST(ChatMessagesTest, RolesThatAreUnknownAreRefused) {
  for (const char* const message :
       {R"({"role":"function","content":"x"})", R"({"role":"context","content":"x"})",
        R"({"role":"User","content":"x"})", R"({"role":"","content":"x"})", R"({"content":"x"})",
        R"({"role":null,"content":"x"})", R"({"role":1,"content":"x"})",
        R"({"role":["user"],"content":"x"})", "{}", "[]", R"("x")", "null"}) {
    ExpectRefused("[" + std::string(message) + "]", "messages[0]");
  }
}

TEST(ChatMessagesTest, CallsAndTheirResultsAreRead) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      const auto messages,
      Messages(R"([{"role":"user","content":"U"},)" +
               Calling(R"({"id":"c1","index":0,"type":"function","function":)"
                       R"({"name":"add","arguments":"{\"b\": 1, \"a\":2}"}})") +
               R"(,{"role":"tool","tool_call_id":"c1","name":"add",)"
               R"("content":[{"type":"text","text":"3"}]}])"));
  ASSERT_EQ(messages.size(), 3u);
  EXPECT_EQ(messages[1].content, "");
  EXPECT_EQ(messages[1].more, R"({"tool_calls":[{"id":"c1","type":"function","function":)"
                              R"({"name":"add","arguments":"{\"b\": 1, \"a\":2}"}}]})");
  EXPECT_TRUE(CallsTools(messages[1]));
  EXPECT_EQ(messages[2].role, "tool");
  EXPECT_EQ(messages[2].content, "3");
  EXPECT_EQ(messages[2].more, R"({"tool_call_id":"c1","name":"add"})");
  EXPECT_FALSE(CallsTools(messages[2]));
}

TEST(ChatMessagesTest, AnAssistantsMessageMayHaveContentReasoningAndCalls) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      const auto messages,
      Messages(R"([{"role":"assistant","content":"A","reasoning_content":"R","tool_calls":[)" +
               Call("1") + "," + Call("2") + "]}]"));
  EXPECT_EQ(messages[0].content, "A");
  EXPECT_THAT(messages[0].more,
              ::testing::StartsWith(R"({"reasoning_content":"R","tool_calls":[)"));
  EXPECT_EQ(Messages(R"([{"role":"user","content":"A","reasoning_content":"R"}])")->front().more,
            "");
}

TEST(ChatMessagesTest, ACallThatIsWrongIsNamed) {
  const std::string place = "messages[0].tool_calls[1]";
  const auto refused = [&](const std::string& call, const std::string& member) {
    ExpectRefused("[" + Calling(Call("1") + "," + call) + "]", "'" + place + member + "'");
  };
  refused("5", "");
  refused("null", "");
  refused(R"({"id":"2","function":{"name":"f","arguments":"{}"}})", ".type");
  refused(R"({"id":"2","type":"custom","custom":{}})", ".type");
  refused(R"({"id":5,"type":"function","function":{"name":"f","arguments":"{}"}})", ".id");
  refused(R"({"id":"2","type":"function"})", ".function");
  refused(R"({"id":"2","type":"function","function":[]})", ".function");
  refused(R"({"id":"2","type":"function","function":{"arguments":"{}"}})", ".function.name");
  refused(R"({"id":"2","type":"function","function":{"name":5,"arguments":"{}"}})",
          ".function.name");
  for (const char* const arguments :
       {"null", "{}", "5", R"("")", R"("{")", R"("{\"a\":}")", R"("text")"}) {
    refused(R"({"id":"2","type":"function","function":{"name":"f","arguments":)" +
                std::string(arguments) + "}}",
            ".function.arguments");
  }
  Json deep = std::string(100'000, '[');
  refused(
      R"({"id":"2","type":"function","function":{"name":"f","arguments":)" + ToText(deep) + "}}",
      ".function.arguments");
  ExpectRefused(R"([{"role":"assistant","tool_calls":{"id":"1"}}])", "'messages[0].tool_calls'");
}

TEST(ChatMessagesTest, AResultBelongsToOneCallBeforeIt) {
  const std::string place = "'messages[1].tool_call_id'";
  ExpectRefused("[" + ResultOf("1") + "," + Calling(Call("1")) + "]",
                "'messages[0].tool_call_id' is \"1\", expected the id of a tool call in a message");
  ExpectRefused("[" + Calling(Call("1")) + "," + ResultOf("2") + "]", place);
  ExpectRefused("[" + Calling(Call("1")) + R"(,{"role":"tool","content":"5"}])", place);
  ExpectRefused("[" + Calling(Call("1")) + R"(,{"role":"tool","tool_call_id":5,"content":"5"}])",
                place);
  ExpectRefused("[" + Calling(Call("1")) + "," + ResultOf("1") + "," + ResultOf("1") + "]",
                "'messages[2].tool_call_id' is \"1\", expected the id of a tool call that has no");
  // Models count their calls from 0 in each message.
  ATTNDB_EXPECT_OK(Messages("[" + Calling(Call("0") + "," + Call("1")) + "," + ResultOf("1") + "," +
                            ResultOf("0") + "," + Calling(Call("0")) + "," + ResultOf("0") + "]"));
}

TEST(ChatMessagesTest, WhatCallsWereBeforeToolsIsRefused) {
  ExpectRefused(R"([{"role":"assistant","content":"","function_call":{"name":"f"}}])",
                "'messages[0].function_call'");
  ExpectRefused(R"([{"role":"assistant","content":"","audio":{"id":"x"}}])", "'messages[0].audio'");
  ATTNDB_EXPECT_OK(Messages(R"([{"role":"assistant","content":"","function_call":null}])"));
}

}  // namespace
}  // namespace attndb::server
