// Goal:   tools are taken as clients send them, in their order, and one that is wrong is named.
// Method: bodies as JSON, at the limits and beyond them.
#include "server/openai/tools_field.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "server/openai/text_request.h"
#include "testing/matchers.h"

namespace attndb::server {
namespace {

using ::attndb::test::FailsWith;
using ::testing::AllOf;
using ::testing::HasSubstr;

Result<llama::ChatOptions> Read(const std::string& body) {
  ATTNDB_ASSIGN_OR_RETURN(const Json json, ParseJson("{" + body + "}", kWideFields));
  llama::ChatOptions chat;
  ATTNDB_RETURN_IF_ERROR(ReadTools(json, &chat));
  return chat;
}

void ExpectRefused(const std::string& body, const std::string& says) {
  EXPECT_THAT(Read(body), FailsWith(StatusCode::kInvalidArgument, HasSubstr(says))) << body;
}

std::string Tool(const std::string& name) {
  return R"({"type":"function","function":{"name":")" + name + "\"}}";
}
std::string Tools(const std::string& tools, const std::string& more = "") {
  return R"("tools":[)" + tools + "]" + (more.empty() ? "" : "," + more);
}

TEST(ToolsFieldTest, WithoutToolsNoneAreCalled) {
  for (const char* const body :
       {"", R"("tools":null)", R"("tools":[],"tool_choice":"auto")", R"("tool_choice":"none")"}) {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const llama::ChatOptions chat, Read(body));
    EXPECT_EQ(chat.tools, "") << body;
    EXPECT_EQ(chat.parallel_tool_calls, std::nullopt);
  }
}

TEST(ToolsFieldTest, ToolsKeepTheirOrderAndTheirMembers) {
  const std::string tools =
      R"({"type":"function","function":{"strict":true,"name":"z","parameters":)"
      R"({"type":"object","properties":{"b":{"type":"number"},"a":{}},"required":["b"]},)"
      R"("description":"Zs"}},)" +
      Tool("a");
  ATTNDB_ASSERT_OK_AND_ASSIGN(const llama::ChatOptions chat, Read(Tools(tools)));
  EXPECT_EQ(chat.tools, "[" + tools + "]");
  EXPECT_EQ(chat.tool_choice, llama::ToolChoice::kAuto);
}

TEST(ToolsFieldTest, AChoiceIsOneOfFour) {
  const auto choice = [](const std::string& text) {
    return *Read(Tools(Tool("a") + "," + Tool("b"), "\"tool_choice\":" + text));
  };
  EXPECT_EQ(choice("null").tool_choice, llama::ToolChoice::kAuto);
  EXPECT_EQ(choice(R"("auto")").tool_choice, llama::ToolChoice::kAuto);
  EXPECT_EQ(choice(R"("none")").tool_choice, llama::ToolChoice::kNone);
  EXPECT_EQ(choice(R"("required")").tool_choice, llama::ToolChoice::kRequired);
  EXPECT_EQ(choice(R"("required")").tool_name, "");
  const llama::ChatOptions named = choice(R"({"type":"function","function":{"name":"b"}})");
  EXPECT_EQ(named.tool_choice, llama::ToolChoice::kRequired);
  EXPECT_EQ(named.tool_name, "b");
  EXPECT_NE(choice(R"("none")").tools, "") << "the template shows them";
}

TEST(ToolsFieldTest, AChoiceThatIsNoneIsRefused) {
  for (const char* const choice :
       {R"("any")", R"("")", "5", "true", "[]", "{}", R"({"type":"function"})",
        R"({"type":"function","function":"a"})", R"({"type":"tool","function":{"name":"a"}})"}) {
    ExpectRefused(Tools(Tool("a"), "\"tool_choice\":" + std::string(choice)), "'tool_choice'");
  }
  for (const char* const name : {R"("b")", "5", "null"}) {
    ExpectRefused(Tools(Tool("a"), R"("tool_choice":{"type":"function","function":{"name":)" +
                                       std::string(name) + "}}"),
                  "'tool_choice.function.name'");
  }
  ExpectRefused(Tools(Tool("a"), R"("tool_choice":{"type":"allowed_tools"})"), "allowed_tools");
  ExpectRefused(R"("tool_choice":"required")", "there are no tools");
  ExpectRefused(R"("tool_choice":{"type":"function","function":{"name":"a"}})",
                "'tool_choice.function.name'");
}

TEST(ToolsFieldTest, AToolThatIsWrongIsNamed) {
  const auto refused = [](const std::string& tool, const std::string& member) {
    ExpectRefused(Tools(Tool("a") + "," + tool), "'tools[1]" + member + "'");
  };
  refused("5", "");
  refused("{}", ".type");
  refused(R"({"type":"web_search"})", ".type");
  refused(R"({"type":"custom","custom":{"name":"x"}})", ".type");
  refused(R"({"type":"function"})", ".function");
  refused(R"({"type":"function","function":{}})", ".function.name");
  refused(Tool(""), ".function.name");
  refused(Tool("a b"), ".function.name");
  refused(Tool("a.b"), ".function.name");
  refused(Tool("\u00e4"), ".function.name");
  refused(Tool(std::string(kMaxToolNameBytes + 1, 'x')), ".function.name");
  refused(Tool("a"), ".function.name");
  refused(R"({"type":"function","function":{"name":"b","description":5}})",
          ".function.description");
  refused(R"({"type":"function","function":{"name":"b","parameters":[]}})", ".function.parameters");
  for (const char* const tools : {"{}", "5", R"("x")", "true"}) {
    ExpectRefused("\"tools\":" + std::string(tools), "'tools'");
  }
  ATTNDB_EXPECT_OK(Read(Tools(Tool(std::string(kMaxToolNameBytes, 'x')) + "," + Tool("Ab_0-"))));
}

TEST(ToolsFieldTest, SoManyToolsAreTaken) {
  const auto many = [](size_t count) {
    std::string tools = Tool("t0");
    for (size_t i = 1; i < count; ++i) tools += "," + Tool("t" + std::to_string(i));
    return Tools(tools);
  };
  ATTNDB_EXPECT_OK(Read(many(kMaxTools)));
  ExpectRefused(many(kMaxTools + 1), "at most 1024 tools");
  ExpectRefused(many(10'000), "at most 1024 tools");
}

TEST(ToolsFieldTest, ASchemaMayBeDeepAndWide) {
  const auto tool = [](const std::string& parameters) {
    return Tools(R"({"type":"function","function":{"name":"f","parameters":)" + parameters + "}}");
  };
  std::string deep = R"({"type":"object"})";
  for (int i = 0; i < 30; ++i) {
    deep = R"({"type":"object","properties":{"p":{"type":"array","items":)" + deep + "}}}";
  }
  ATTNDB_EXPECT_OK(Read(tool(deep)));
  std::string wide = R"({"type":"object","properties":{"p0":{})";
  for (size_t i = 1; i < kMaxSchemaMembers; ++i) wide += ",\"p" + std::to_string(i) + "\":{}";
  ATTNDB_EXPECT_OK(Read(tool(wide + "}}")));
  ExpectRefused(tool(wide + R"(,"p":{}}})"), "more than 1024 members");
  ExpectRefused(tool(std::string(100'000, '[')), "deeper than 128 levels");
}

TEST(ToolsFieldTest, CallsMayBeParallelOrNot) {
  EXPECT_EQ(Read(R"("parallel_tool_calls":true)")->parallel_tool_calls, true);
  EXPECT_EQ(Read(R"("parallel_tool_calls":false)")->parallel_tool_calls, false);
  ExpectRefused(R"("parallel_tool_calls":1)", "'parallel_tool_calls'");
}

}  // namespace
}  // namespace attndb::server
