// Goal:   replies are read into content, reasoning and calls, whole and cut at any byte; schemas
//         become grammars; neither keeps a template waiting, and one that is hostile ends alone.
// Method: forms that the program itself made, and texts that a model could have written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "engines/llama/chat/chat_renderer.h"
#include "engines/llama/chat/chat_test_util.h"
#include "engines/llama/chat/reply_parsers.h"
#include "testing/matchers.h"

namespace attndb::llama {
namespace {

using ::attndb::test::FailsWith;
using ::testing::_;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kCall[] =
    "Let me see.\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": "
    "{\"city\": \"Ulm\"}}\n</tool_call>";

class ChatReplyTest : public ::testing::Test {
 protected:
  ReplyForm ToolForm(const std::string& tools = TwoTools()) {
    ChatInput input = {.messages = UserMessage("x"), .options = {}};
    input.options.tools = tools;
    Result<ChatPlan> plan = renderer_.Render(input);
    EXPECT_THAT(plan, ::attndb::test::IsOk());
    return plan.ok() ? plan->form : ReplyForm();
  }

  ChatRenderer renderer_{FindChatProgram(), {kToolTemplate, "", ""}};
};

TEST_F(ChatReplyTest, ACallIsReadApartFromTheContent) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ReadReply reply, renderer_.Read(ToolForm(), kCall, false));
  EXPECT_EQ(reply.content, "Let me see.\n");
  EXPECT_EQ(reply.reasoning, "");
  ASSERT_EQ(reply.calls.size(), 1u);
  EXPECT_EQ(reply.calls[0].name, "get_weather");
  EXPECT_EQ(reply.calls[0].arguments, R"({"city": "Ulm"})");
}

TEST_F(ChatReplyTest, AReplyThatIsCutAnywhereIsABeginningOfTheWhole) {
  const ReplyForm form = ToolForm();
  const std::string text = kCall;
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ReadReply whole, renderer_.Read(form, text, false));
  for (size_t length = 0; length < text.size(); ++length) {
    const Result<ReadReply> part = renderer_.Read(form, text.substr(0, length), true);
    ATTNDB_ASSERT_OK(part.status()) << length;
    EXPECT_THAT(whole.content, StartsWith(part->content)) << length;
    ASSERT_LE(part->calls.size(), 1u) << length;
    if (part->calls.empty()) continue;
    EXPECT_EQ(part->calls[0].name, "get_weather") << length;
    EXPECT_THAT(whole.calls[0].arguments, StartsWith(part->calls[0].arguments)) << length;
  }
}

TEST_F(ChatReplyTest, ABeginningThatHasNotTheFormIsAnError) {
  const ReplyForm form = ToolForm();
  for (const char* const call : {"{\"name\": \"no_such_tool\", \"arguments\": {}}\n</tool_call>",
                                 "{\"name\": \"get_weather\", \"arguments\": Ulm}"}) {
    const std::string text = std::string("Let me see.\n<tool_call>\n") + call;
    for (const bool is_partial : {false, true}) {
      EXPECT_THAT(renderer_.Read(form, text, is_partial),
                  FailsWith(StatusCode::kInvalidArgument, HasSubstr("format")))
          << text << is_partial;
    }
  }
}

TEST_F(ChatReplyTest, ABeginningThatSaysNothingYetIsEmpty) {
  for (const char* const text : {"", "<", "<tool_call>"}) {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const ReadReply reply, renderer_.Read(ToolForm(), text, true));
    EXPECT_EQ(reply.content, "");
    EXPECT_TRUE(reply.calls.empty());
  }
}

TEST_F(ChatReplyTest, ReasoningIsReadApart) {
  ChatRenderer thinks(FindChatProgram(), {kThinkTemplate, "", ""});
  ChatInput input = {.messages = UserMessage("x"), .options = {}};
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ChatPlan plan, thinks.Render(input));
  const std::string text = "<think>\nHm.\n</think>\n\nYes.";
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ReadReply reply, thinks.Read(plan.form, text, false));
  EXPECT_THAT(reply.reasoning, HasSubstr("Hm."));
  EXPECT_EQ(reply.content, "Yes.");
  input.options.reasoning_format = "none";
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ChatPlan none, thinks.Render(input));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ReadReply raw, thinks.Read(none.form, text, false));
  EXPECT_EQ(raw.reasoning, "");
  EXPECT_THAT(raw.content, AllOf(HasSubstr("Hm."), HasSubstr("Yes.")));
}

TEST_F(ChatReplyTest, AFormWithoutAParserNeedsNoProgram) {
  ChatRenderer none("", {kToolTemplate, "", ""});
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ReadReply reply, none.Read({}, "<tool_call>", false));
  EXPECT_EQ(reply.content, "<tool_call>");
  EXPECT_TRUE(reply.calls.empty());
}

TEST_F(ChatReplyTest, MoreFormsThanAreKeptAreAllRead) {
  std::vector<ReplyForm> forms;
  for (size_t i = 0; i < kKeptParsers + 3; ++i) {
    forms.push_back(ToolForm("[" + ToolJson("tool" + std::to_string(i), "x") + "]"));
  }
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < forms.size(); ++i) {
      const std::string name = "tool" + std::to_string(i);
      ATTNDB_ASSERT_OK_AND_ASSIGN(
          const ReadReply reply,
          renderer_.Read(forms[i],
                         "<tool_call>\n{\"name\": \"" + name +
                             "\", \"arguments\": {\"x\": \"y\"}}\n</tool_call>",
                         false));
      ASSERT_EQ(reply.calls.size(), 1u);
      EXPECT_EQ(reply.calls[0].name, name);
    }
  }
}

TEST_F(ChatReplyTest, AReplyThatOverflowsTheStackEndsAlone) {
  const ReplyForm form = ToolForm();
  const std::string deep = "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": " +
                           std::string(1'000'000, '[');
  EXPECT_THAT(renderer_.Read(form, deep, true),
              FailsWith(StatusCode::kResourceExhausted, HasSubstr("the reply was not read")));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ReadReply reply, renderer_.Read(form, kCall, false));
  EXPECT_EQ(reply.calls.size(), 1u);
}

TEST_F(ChatReplyTest, AParserThatIsNoneIsAnError) {
  ReplyForm form;
  form.parser = "{";
  EXPECT_THAT(renderer_.Read(form, "x", false), FailsWith(StatusCode::kInvalidArgument, _));
}

TEST_F(ChatReplyTest, ASchemaBecomesAGrammar) {
  EXPECT_THAT(*renderer_.GrammarOfSchema(R"({"enum":["yes","no"]})"),
              AllOf(HasSubstr("root ::="), HasSubstr("yes")));
  EXPECT_THAT(renderer_.GrammarOfSchema(R"({"type":"object","properties":{"x":{"type":"foo"}}})"),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("#/properties/x")));
  EXPECT_THAT(renderer_.GrammarOfSchema("{"), FailsWith(StatusCode::kInvalidArgument, _));
}

TEST_F(ChatReplyTest, ASchemaThatRefersToItselfEndsAlone) {
  EXPECT_THAT(renderer_.GrammarOfSchema(R"({"allOf":[{"$ref":"#/a"}],"a":{"$ref":"#/a"}})"),
              FailsWith(StatusCode::kResourceExhausted, HasSubstr("the JSON schema")));
  const std::string deep = "{\"items\":" + std::string(20'000, '[');
  EXPECT_FALSE(renderer_.GrammarOfSchema(deep).ok());
  EXPECT_TRUE(renderer_.GrammarOfSchema("{}").ok());
}

TEST_F(ChatReplyTest, SchemasAndRepliesNeedNoTemplate) {
  ChatRenderer broken(FindChatProgram(), {"{% if", "", ""});
  EXPECT_FALSE(broken.Check().ok());
  EXPECT_TRUE(broken.GrammarOfSchema("{}").ok());
  EXPECT_TRUE(broken.Read(ToolForm(), kCall, false).ok());
}

}  // namespace
}  // namespace attndb::llama
