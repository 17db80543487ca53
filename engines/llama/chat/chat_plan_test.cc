// Goal:   a chat with tools, a schema or thinking gives the prompt and the form of replies that
//         llama.cpp's own server would use.
// Method: small templates through the program as it is built.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "engines/llama/chat/chat_renderer.h"
#include "engines/llama/chat/chat_test_util.h"
#include "testing/matchers.h"

namespace attndb::llama {
namespace {

using ::attndb::test::FailsWith;
using ::testing::_;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

ChatInput ToolInput(const std::string& messages = UserMessage("Rain?")) {
  ChatInput input = {.messages = messages, .options = {}};
  input.options.tools = TwoTools();
  return input;
}

class ChatPlanTest : public ::testing::Test {
 protected:
  ChatRenderer tools_{FindChatProgram(), {kToolTemplate, "", ""}};
  ChatRenderer thinks_{FindChatProgram(), {kThinkTemplate, "", ""}};
};

TEST_F(ChatPlanTest, AChatWithoutToolsIsReadAsContent) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ChatPlan plan,
                              tools_.Render({.messages = UserMessage("Hello"), .options = {}}));
  EXPECT_EQ(plan.prompt, "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(plan.form.generation_prompt, "<|im_start|>assistant\n");
  EXPECT_EQ(plan.form.parser, "") << "all of the reply is content";
  EXPECT_EQ(plan.form.grammar, "");
  EXPECT_FALSE(plan.form.can_think);
}

TEST_F(ChatPlanTest, ToolsAreShownInTheirOrder) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ChatPlan plan, tools_.Render(ToolInput()));
  const size_t weather = plan.prompt.find(R"("name": "get_weather")");
  const size_t note = plan.prompt.find(R"("name": "add_note")");
  ASSERT_NE(weather, std::string::npos) << plan.prompt;
  ASSERT_NE(note, std::string::npos) << plan.prompt;
  EXPECT_LT(weather, note);
  EXPECT_NE(plan.form.parser, "");
  EXPECT_TRUE(plan.form.is_lazy);
  ASSERT_EQ(plan.form.triggers.size(), 1u);
  EXPECT_THAT(plan.form.triggers[0].text, HasSubstr("<tool_call>"));
  EXPECT_THAT(plan.form.grammar, AllOf(HasSubstr("get_weather"), HasSubstr("add_note")));
}

TEST_F(ChatPlanTest, OneToolByNameIsTheOnlyOneThatMayBeCalled) {
  ChatInput input = ToolInput();
  input.options.tool_choice = ToolChoice::kRequired;
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ChatPlan any, tools_.Render(input));
  EXPECT_FALSE(any.form.is_lazy);
  input.options.tool_name = "add_note";
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ChatPlan one, tools_.Render(input));
  EXPECT_EQ(one.prompt, any.prompt) << "all tools are shown";
  EXPECT_FALSE(one.form.is_lazy);
  EXPECT_THAT(one.form.grammar, AllOf(HasSubstr("add_note"), Not(HasSubstr("get_weather"))));
  input.options.tool_name = "nobody";
  EXPECT_THAT(tools_.Render(input),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("no tool is named 'nobody'")));
}

TEST_F(ChatPlanTest, WithoutAChoiceOfToolsTheyAreShownAndNotCalled) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ChatPlan plan, tools_.Render(ToolInput()));
  ChatInput input = ToolInput();
  input.options.tool_choice = ToolChoice::kNone;
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ChatPlan none, tools_.Render(input));
  EXPECT_EQ(none.prompt, plan.prompt);
  EXPECT_EQ(none.form.grammar, "");
}

TEST_F(ChatPlanTest, CallsAndTheirResultsAreShown) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      const ChatPlan plan,
      tools_.Render(ToolInput(
          R"([{"role":"user","content":"Rain?"},{"role":"assistant","content":"","tool_calls":[)"
          R"({"type":"function","id":"1","function":{"name":"get_weather","arguments":)"
          R"("{\"city\": \"Ulm\"}"}}]},{"role":"tool","tool_call_id":"1","content":"Yes."}])")));
  EXPECT_THAT(plan.prompt, HasSubstr("<tool_call>\n{\"name\": \"get_weather\", \"arguments\": "
                                     "{\"city\": \"Ulm\"}}\n</tool_call><|im_end|>"));
  EXPECT_THAT(plan.prompt, HasSubstr("<tool_response>\nYes.\n</tool_response>"));
}

TEST_F(ChatPlanTest, AnotherTemplateIsUsedForChatsWithTools) {
  ChatRenderer both(FindChatProgram(),
                    {"{{ messages[0].content }} without", "", "", kToolTemplate});
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ChatPlan plain,
                              both.Render({.messages = UserMessage("x"), .options = {}}));
  EXPECT_EQ(plain.prompt, "x without");
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ChatPlan with, both.Render(ToolInput()));
  EXPECT_THAT(with.prompt, HasSubstr("get_weather"));
}

TEST_F(ChatPlanTest, ASchemaBecomesAGrammarThatIsInForceAtOnce) {
  ChatInput input = {.messages = UserMessage("x"), .options = {}};
  input.options.json_schema = R"({"type":"object","properties":{"age":{"type":"integer"}}})";
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ChatPlan plan, tools_.Render(input));
  EXPECT_FALSE(plan.form.is_lazy);
  EXPECT_THAT(plan.form.grammar, HasSubstr("age"));
  input.options.json_schema = R"({"type":"object","properties":{"age":{"type":"foo"}}})";
  EXPECT_THAT(tools_.Render(input),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("#/properties/age")));
}

TEST_F(ChatPlanTest, ThinkingIsOnUnlessSomebodySaysOtherwise) {
  ChatInput input = {.messages = UserMessage("x"), .options = {}};
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ChatPlan on, thinks_.Render(input));
  EXPECT_THAT(on.prompt, testing::EndsWith("<|im_start|>assistant\n"));
  EXPECT_TRUE(on.form.can_think);
  EXPECT_EQ(on.form.thinking_start, "<think>");
  EXPECT_THAT(on.form.thinking_ends, ElementsAre("</think>"));
  input.options.enable_thinking = false;
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ChatPlan off, thinks_.Render(input));
  EXPECT_THAT(off.prompt, testing::EndsWith("<think>\n\n</think>\n\n"));
  input.options.enable_thinking.reset();
  input.options.variables["enable_thinking"] = "false";
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ChatPlan variable, thinks_.Render(input));
  EXPECT_EQ(variable.prompt, off.prompt);
  input.options.variables["enable_thinking"] = "\"no\"";
  EXPECT_THAT(thinks_.Render(input),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("enable_thinking")));
}

TEST_F(ChatPlanTest, HistoryKeepsReasoningAsLlamaServerSays) {
  ChatRenderer renderer(FindChatProgram(), {"{{ preserve_reasoning }}", "", ""});
  ChatInput input = {.messages = UserMessage("x"), .options = {}};
  EXPECT_EQ(renderer.Render(input)->prompt, "True");
  input.options.variables["preserve_reasoning"] = "false";
  EXPECT_EQ(renderer.Render(input)->prompt, "False");
}

TEST_F(ChatPlanTest, AReplyThatGoesOnHasNoEndBeforeIt) {
  ChatInput input = {.messages = R"([{"role":"user","content":"Count."},)"
                                 R"({"role":"assistant","content":"One, two,"}])",
                     .options = {}};
  input.options.continues_last = true;
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ChatPlan plan, tools_.Render(input));
  EXPECT_EQ(plan.prompt, "<|im_start|>user\nCount.<|im_end|>\n<|im_start|>assistant\nOne, two,");
  EXPECT_EQ(plan.form.generation_prompt, "<|im_start|>assistant\nOne, two,");
}

// Raises whenever llama.cpp tries it with messages of its own.
constexpr char kNotToBeAnalyzed[] =
    "{% if messages[0].content is not string or not messages[0].content.startswith('ok') %}"
    "{{ raise_exception('not ok') }}{% endif %}"
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}";

TEST_F(ChatPlanTest, ATemplateThatCantBeAnalyzedStillMakesPrompts) {
  ChatRenderer renderer(FindChatProgram(), {kNotToBeAnalyzed, "", ""});
  ChatInput input = {.messages = UserMessage("ok"), .options = {}};
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ChatPlan plan, renderer.Render(input));
  EXPECT_EQ(plan.prompt, "[user]ok[assistant]");
  EXPECT_EQ(plan.form.parser, "");
  input.messages = R"([{"role":"user","content":"ok"},{"role":"assistant","content":"go"}])";
  input.options.continues_last = true;
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ChatPlan behind, renderer.Render(input));
  EXPECT_EQ(behind.prompt, "[user]ok[assistant]go");
  EXPECT_EQ(behind.form.generation_prompt, "[assistant]go");
}

TEST_F(ChatPlanTest, ToolsThatAreNoneAreNamed) {
  ChatInput input = ToolInput();
  for (const char* tools : {"{", "{}", "[1]", R"([{"type":"code"}])", R"([{"type":"function"}])"}) {
    input.options.tools = tools;
    EXPECT_THAT(tools_.Render(input), FailsWith(StatusCode::kInvalidArgument, _)) << tools;
  }
}

}  // namespace
}  // namespace attndb::llama
