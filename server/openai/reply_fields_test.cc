// Goal:   what a reply has to be, and how the model thinks, is read from each field that says so,
//         and fields that contradict each other are refused.
// Method: bodies of chats as JSON.
#include "server/openai/reply_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "testing/matchers.h"

namespace attndb::server {
namespace {

using ::attndb::test::FailsWith;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr const char* kTools = R"("tools":[{"type":"function","function":{"name":"f"}}],)";
constexpr const char* kUser = R"({"role":"user","content":"U"})";
constexpr const char* kReply = R"({"role":"assistant","content":"A"})";

Result<TextRequest> Chat(const std::string& more) {
  ATTNDB_ASSIGN_OR_RETURN(
      const Json body, ParseJson(R"({"messages":[{"role":"user","content":"U"}],)" + more + "}"));
  return ParseChat(body);
}
Result<TextRequest> Messages(const std::string& messages, const std::string& more = "") {
  ATTNDB_ASSIGN_OR_RETURN(const Json body, ParseJson(R"({"messages":[)" + messages + "]" +
                                                     (more.empty() ? "" : "," + more) + "}"));
  return ParseChat(body);
}

void ExpectRefused(const Result<TextRequest>& request, const std::string& says) {
  EXPECT_THAT(request, FailsWith(StatusCode::kInvalidArgument, HasSubstr(says)));
}

std::string SchemaOf(const std::string& more) {
  const Result<TextRequest> request = Chat(more);
  return request.ok() ? request->chat.json_schema : request.status().ToString();
}

TEST(ReplyFieldsTest, ASchemaComesInFourForms) {
  constexpr const char* kSchema = R"({"type":"object","properties":{"b":{},"a":{}}})";
  const std::string schema = kSchema;
  EXPECT_EQ(SchemaOf(R"("response_format":{"type":"json_schema","json_schema":)"
                     R"({"name":"n","strict":true,"schema":)" +
                     schema + "}}"),
            schema);
  EXPECT_EQ(SchemaOf(R"("response_format":{"type":"json_object","schema":)" + schema + "}"),
            schema);
  EXPECT_EQ(SchemaOf(R"("json_schema":)" + schema), schema);
  EXPECT_EQ(SchemaOf(R"("response_format":{"type":"json_object"})"), R"({"type":"object"})");
  EXPECT_EQ(SchemaOf(R"("json_schema":{})"), R"({"type":"object"})") << "as llama.cpp's server";
  EXPECT_EQ(SchemaOf(R"("response_format":{"type":"json_schema","json_schema":{}})"),
            R"({"type":"object"})");
  EXPECT_EQ(SchemaOf(R"("response_format":{"type":"text"})"), "");
  EXPECT_EQ(SchemaOf(R"("response_format":null,"json_schema":null)"), "");
}

TEST(ReplyFieldsTest, AFormatThatIsNoneIsRefused) {
  for (const char* const format :
       {"{}", R"({"type":1})", R"({"type":null})", R"({"type":["text"]})", R"({"type":"xml"})",
        R"("text")", "[]", "1", "true"}) {
    ExpectRefused(Chat("\"response_format\":" + std::string(format)), "'response_format'");
  }
  ExpectRefused(Chat(R"("response_format":{"type":"json_schema"})"),
                "'response_format.json_schema'");
  ExpectRefused(Chat(R"("response_format":{"type":"json_schema","json_schema":{"schema":5}})"),
                "'response_format.json_schema.schema'");
  ExpectRefused(Chat(R"("response_format":{"type":"json_object","schema":[]})"),
                "'response_format.schema'");
  for (const char* const schema : {"5", R"("x")", "true", "[]"}) {
    ExpectRefused(Chat("\"json_schema\":" + std::string(schema)), "'json_schema'");
  }
  ExpectRefused(Chat(R"("grammar":5)"), "'grammar'");
}

TEST(ReplyFieldsTest, AReplyHasOneForm) {
  const std::string grammar = R"("grammar":"root ::= [a]")";
  EXPECT_EQ(Chat(grammar)->grammar, "root ::= [a]");
  ExpectRefused(Chat(R"("json_schema":{},"response_format":{"type":"json_object"})"),
                "'json_schema' and 'response_format'");
  ExpectRefused(Chat(grammar + R"(,"json_schema":{})"), "'grammar' and a schema");
  ExpectRefused(Chat(grammar + R"(,"response_format":{"type":"json_object"})"),
                "'grammar' and a schema");
  ExpectRefused(Chat(kTools + grammar), "'grammar' and 'tools'");
  ATTNDB_EXPECT_OK(Chat(kTools + grammar + R"(,"tool_choice":"none")"));
  ATTNDB_EXPECT_OK(Chat(std::string(kTools) + R"("json_schema":{})"));
  ATTNDB_EXPECT_OK(Chat(grammar + R"(,"response_format":{"type":"text"})"));
}

TEST(ReplyFieldsTest, ThinkingHasOneSwitchOfManyNames) {
  const auto thinks = [](const std::string& more) { return Chat(more)->chat.enable_thinking; };
  EXPECT_EQ(thinks(R"("seed":1)"), std::nullopt);
  EXPECT_EQ(thinks(R"("enable_thinking":true)"), true);
  EXPECT_EQ(thinks(R"("enable_thinking":false)"), false);
  EXPECT_EQ(thinks(R"("chat_template_kwargs":{"enable_thinking":false})"), false);
  EXPECT_EQ(thinks(R"("chat_template_kwargs":{"enable_thinking":false},"enable_thinking":true)"),
            true);
  EXPECT_EQ(thinks(R"("reasoning_effort":"none")"), false);
  EXPECT_EQ(thinks(R"("reasoning_effort":"low")"), std::nullopt);
  EXPECT_EQ(thinks(R"("reasoning_budget_tokens":0)"), false);
  EXPECT_EQ(thinks(R"("thinking_budget_tokens":0)"), false);
  EXPECT_EQ(thinks(R"("reasoning_budget_tokens":-1)"), std::nullopt);
  ExpectRefused(Chat(R"("enable_thinking":"true")"), "'enable_thinking'");
  ExpectRefused(Chat(R"("chat_template_kwargs":{"enable_thinking":"true"})"),
                "'chat_template_kwargs.enable_thinking'");
}

TEST(ReplyFieldsTest, AnEffortIsAVariableOfTheTemplate) {
  EXPECT_THAT(Chat(R"("reasoning_effort":"high")")->chat.variables,
              ElementsAre(Pair("reasoning_effort", R"("high")")));
  EXPECT_THAT(Chat(R"("reasoning_effort":"none",)"
                   R"("chat_template_kwargs":{"reasoning_effort":"low"})")
                  ->chat.variables,
              IsEmpty());
  ExpectRefused(Chat(R"("reasoning_effort":5)"), "'reasoning_effort'");
  ExpectRefused(Chat(R"("reasoning_effort":")" + std::string(65, 'x') + "\""),
                "'reasoning_effort'");
}

TEST(ReplyFieldsTest, VariablesOfTheTemplateAreJson) {
  EXPECT_THAT(
      Chat(R"("chat_template_kwargs":{"b":{"z":1,"a":[true]},"a":"x","n":null})")->chat.variables,
      ElementsAre(Pair("a", R"("x")"), Pair("b", R"({"z":1,"a":[true]})"), Pair("n", "null")));
  for (const char* const variables : {"[]", "5", R"("{}")"}) {
    ExpectRefused(Chat("\"chat_template_kwargs\":" + std::string(variables)),
                  "'chat_template_kwargs'");
  }
  for (const char* const name :
       {"messages", "tools", "bos_token", "eos_token", "add_generation_prompt"}) {
    ExpectRefused(Chat(R"("chat_template_kwargs":{")" + std::string(name) + "\":\"x\"}"),
                  "'chat_template_kwargs." + std::string(name) + "'");
  }
}

TEST(ReplyFieldsTest, ABudgetHasTwoNamesOfWhichOneIsStronger) {
  EXPECT_EQ(Chat(R"("seed":1)")->reasoning_budget, -1);
  EXPECT_EQ(Chat(R"("reasoning_budget_tokens":-1.0)")->reasoning_budget, -1);
  EXPECT_EQ(Chat(R"("thinking_budget_tokens":1000)")->reasoning_budget, 1000);
  EXPECT_EQ(Chat(R"("reasoning_budget_tokens":2147483647)")->reasoning_budget, INT32_MAX);
  EXPECT_EQ(Chat(R"("reasoning_budget_tokens":0,"thinking_budget_tokens":5)")->reasoning_budget, 0);
  EXPECT_EQ(Chat(R"("reasoning_budget_tokens":7)")->chat.enable_thinking, std::nullopt);
  for (const char* const value :
       {"2147483648", "-2", "0.5", R"("0")", "true", "1e300", "18446744073709551615"}) {
    for (const std::string field : {"reasoning_budget_tokens", "thinking_budget_tokens"}) {
      ExpectRefused(Chat("\"" + field + "\":" + value), "'" + field + "'");
    }
  }
}

TEST(ReplyFieldsTest, ABudgetMayHaveAMessage) {
  EXPECT_EQ(Chat(R"("seed":1)")->reasoning_message, std::nullopt);
  EXPECT_EQ(Chat(R"("reasoning_budget_message":null)")->reasoning_message, std::nullopt);
  EXPECT_EQ(Chat(R"("reasoning_budget_message":"")")->reasoning_message, "");
  EXPECT_EQ(Chat(R"("reasoning_budget_message":" So:")")->reasoning_message, " So:");
  ExpectRefused(Chat(R"("reasoning_budget_message":5)"), "'reasoning_budget_message'");
  ExpectRefused(Chat(R"("reasoning_budget_message":")" + std::string(4097, 'x') + "\""),
                "'reasoning_budget_message' has 4097 bytes");
}

TEST(ReplyFieldsTest, ReasoningHasTheFormatsOfLlamaCppsServer) {
  EXPECT_EQ(Chat(R"("seed":1)")->chat.reasoning_format, "deepseek");
  for (const char* const format : {"none", "auto", "deepseek", "deepseek-legacy"}) {
    EXPECT_EQ(Chat("\"reasoning_format\":\"" + std::string(format) + "\"")->chat.reasoning_format,
              format);
  }
  for (const char* const format : {R"("")", R"("harmony")", "5", "true"}) {
    ExpectRefused(Chat("\"reasoning_format\":" + std::string(format)), "'reasoning_format'");
  }
}

TEST(ReplyFieldsTest, ALastReplyIsContinuedUnlessTheRequestSaysOtherwise) {
  const std::string replied = std::string(kUser) + "," + kReply;
  EXPECT_FALSE(Messages(kUser)->chat.continues_last);
  EXPECT_TRUE(Messages(replied)->chat.continues_last);
  EXPECT_TRUE(Messages(replied, R"("continue_final_message":true)")->chat.continues_last);
  EXPECT_TRUE(Messages(replied, R"("continue_final_message":"content")")->chat.continues_last);
  EXPECT_FALSE(Messages(replied, R"("continue_final_message":false)")->chat.continues_last);
  EXPECT_TRUE(Messages(replied, R"("continue_final_message":true,"add_generation_prompt":false)")
                  ->chat.continues_last);
  EXPECT_TRUE(Messages(replied, R"("add_generation_prompt":true)")->chat.continues_last)
      << "as llama.cpp's server";
  EXPECT_FALSE(Messages(kUser, R"("add_generation_prompt":true)")->chat.continues_last);
}

TEST(ReplyFieldsTest, AMessageThatCannotBeContinuedIsRefused) {
  const std::string replied = std::string(kUser) + "," + kReply;
  ExpectRefused(Messages(kUser, R"("continue_final_message":true)"), "'continue_final_message'");
  for (const char* const value : {R"("reasoning_content")", "1", R"("")", "[]"}) {
    ExpectRefused(Messages(replied, "\"continue_final_message\":" + std::string(value)),
                  "'continue_final_message'");
  }
  ExpectRefused(Messages(replied, R"("continue_final_message":true,"add_generation_prompt":true)"),
                "exclude each other");
  ExpectRefused(Messages(kUser, R"("add_generation_prompt":false)"), "'add_generation_prompt'");
  ExpectRefused(Messages(kUser, R"("add_generation_prompt":1)"), "'add_generation_prompt'");
  ExpectRefused(Messages(replied + "," + kReply), "the last two messages");
  ExpectRefused(Messages(std::string(kUser) +
                         R"(,{"role":"assistant","tool_calls":[{"id":"1",)"
                         R"("type":"function","function":{"name":"f","arguments":"{}"}}]})"),
                "calls tools");
}

}  // namespace
}  // namespace attndb::server
