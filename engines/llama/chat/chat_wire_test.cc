// Goal:   what is sent to attndb-chat and back arrives whole.
// Method: values with every field set, and with none, go through fields and back.
#include "engines/llama/chat/chat_wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace attndb::llama {
namespace {

using ::testing::ElementsAre;

TEST(ChatWireTest, AnInputComesBackWithAllOptions) {
  ChatInput input = {.messages = "[1]", .options = {}, .add_generation_prompt = false};
  input.options = {.tools = "[2]",
                   .tool_choice = ToolChoice::kRequired,
                   .tool_name = "f",
                   .parallel_tool_calls = false,
                   .json_schema = "{}",
                   .reasoning_format = "none",
                   .enable_thinking = true,
                   .variables = {{"a.b", "\"x\""}, {"", "1"}},
                   .continues_last = true,
                   .now = -5};
  const ChatInput back = ChatInputOf(ChatInputFields(input));
  EXPECT_EQ(back.messages, "[1]");
  EXPECT_FALSE(back.add_generation_prompt);
  EXPECT_EQ(back.options.tools, "[2]");
  EXPECT_EQ(back.options.tool_choice, ToolChoice::kRequired);
  EXPECT_EQ(back.options.tool_name, "f");
  EXPECT_EQ(back.options.parallel_tool_calls, false);
  EXPECT_EQ(back.options.json_schema, "{}");
  EXPECT_EQ(back.options.reasoning_format, "none");
  EXPECT_EQ(back.options.enable_thinking, true);
  EXPECT_EQ(back.options.variables, input.options.variables);
  EXPECT_TRUE(back.options.continues_last);
  EXPECT_EQ(back.options.now, -5);
}

TEST(ChatWireTest, OptionsThatAreNotSetStaySo) {
  const ChatInput back = ChatInputOf(ChatInputFields({.messages = "[]", .options = {}}));
  EXPECT_TRUE(back.add_generation_prompt);
  EXPECT_EQ(back.options.tool_choice, ToolChoice::kAuto);
  EXPECT_FALSE(back.options.parallel_tool_calls.has_value());
  EXPECT_FALSE(back.options.enable_thinking.has_value());
  EXPECT_FALSE(back.options.continues_last);
  EXPECT_TRUE(back.options.variables.empty());
}

TEST(ChatWireTest, APlanComesBackWithItsForm) {
  ChatPlan plan = {.prompt = std::string("a\0b", 3), .form = {}};
  plan.form = {.parser = "p",
               .format = 3,
               .generation_prompt = "g",
               .grammar = "root ::= \"x\"",
               .is_lazy = true,
               .triggers = {{false, "<call>"}, {true, "a+"}},
               .shown_tokens = {"<a>", "<b>"},
               .stop = {""},
               .can_think = true,
               .thinking_start = "<think>",
               .thinking_ends = {"</think>", "</t>"}};
  const ChatPlan back = PlanOf(PlanFields(plan));
  EXPECT_EQ(back.prompt, plan.prompt);
  EXPECT_EQ(back.form.parser, "p");
  EXPECT_EQ(back.form.format, 3);
  EXPECT_EQ(back.form.generation_prompt, "g");
  EXPECT_EQ(back.form.grammar, plan.form.grammar);
  EXPECT_TRUE(back.form.is_lazy);
  ASSERT_EQ(back.form.triggers.size(), 2u);
  EXPECT_FALSE(back.form.triggers[0].is_pattern);
  EXPECT_EQ(back.form.triggers[0].text, "<call>");
  EXPECT_TRUE(back.form.triggers[1].is_pattern);
  EXPECT_EQ(back.form.triggers[1].text, "a+");
  EXPECT_THAT(back.form.shown_tokens, ElementsAre("<a>", "<b>"));
  EXPECT_THAT(back.form.stop, ElementsAre(""));
  EXPECT_TRUE(back.form.can_think);
  EXPECT_EQ(back.form.thinking_start, "<think>");
  EXPECT_THAT(back.form.thinking_ends, ElementsAre("</think>", "</t>"));
}

TEST(ChatWireTest, AReplyComesBackWithItsCalls) {
  ReadReply reply = {.content = "c", .reasoning = "r", .calls = {}};
  for (int i = 0; i < 12; ++i) reply.calls.push_back({std::to_string(i), "f", "{"});
  reply.calls[3].name = "";
  const ReadReply back = ReplyOf(ReplyFields(reply));
  EXPECT_EQ(back.content, "c");
  EXPECT_EQ(back.reasoning, "r");
  ASSERT_EQ(back.calls.size(), 12u);
  for (size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(back.calls[i].id, std::to_string(i));
    EXPECT_EQ(back.calls[i].name, i == 3 ? "" : "f");
    EXPECT_EQ(back.calls[i].arguments, "{");
  }
}

}  // namespace
}  // namespace attndb::llama
