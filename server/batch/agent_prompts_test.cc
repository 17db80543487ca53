// Goal:   an agent's conversation is recognized although its template leaves out earlier reasoning,
//         and although its assistant's messages are tool calls: only what comes behind the part
//         that was left out is run. With "edits": "cut" only what is new is run.
// Method: SmolLM2's vocabulary under templates of the tests. Turns are kept as the scheduler keeps
//         them; replies are the tests' own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "attndb/db.h"
#include "engines/llama/chat/chat_test_util.h"
#include "engines/llama/llama_engine.h"
#include "server/batch/prompts_test_util.h"
#include "testing/matchers.h"

namespace attndb::server {
namespace {

class AgentPromptsTest : public KeptTurnsTest {
 protected:
  void Open(const std::string& chat_template) {
    OpenEngine({.num_threads = 1, .chat_template = chat_template});
  }
  Prompt PromptOf(const Messages& messages, const llama::ChatOptions& options = {},
                  Edits edits = Edits::kExact) const {
    Result<Prompt> prompt = prompts_->OfChat(kTenant, "", messages, options, {}, edits);
    EXPECT_THAT(prompt, ::attndb::test::IsOk());
    return prompt.ok() ? *std::move(prompt) : Prompt();
  }
  size_t NumRun(const Prompt& prompt) {
    return conversations_->Start(kTenant, prompt.tokens, "full", {}, prompt.left_out)->rest.size();
  }
  std::string TextOf(const Prompt& prompt) const {
    return *engine_->Detokenize(Without(prompt.tokens, prompt.left_out), /*render_special=*/true);
  }
};

TEST_F(AgentPromptsTest, WhatComesBehindDroppedReasoningIsRun) {
  Open(llama::kThinkTemplate);
  Messages messages = {{"system", "Be brief."}, {"user", "Which colour is the cat?"}};
  Prompt prompt = PromptOf(messages);
  for (int turn = 0; turn < 3; ++turn) {
    const Tokens told = Answer(prompt, "<think>\nWell, cats.\n</think>\n\nGrey it is");
    const size_t num_asked = prompt.tokens.size();
    messages.push_back({"assistant", "Grey it is", R"({"reasoning_content": "Well, cats."})"});
    messages.push_back({"user", "Sure?"});
    if (turn == 1) Restart();
    prompt = PromptOf(messages);
    EXPECT_EQ(CommonLength(prompt.tokens, told), num_asked) << turn;
    EXPECT_EQ(NumRun(prompt), prompt.tokens.size() - num_asked) << turn;
    ASSERT_TRUE(prompt.parted) << turn;
    EXPECT_EQ(PlaceText(*prompt.parted), std::to_string(messages.size() - 2) + ":0") << turn;
    EXPECT_THAT(prompt.parted->stored, ::testing::StartsWith("<think>\\nWell, cats.")) << turn;
    EXPECT_THAT(prompt.parted->asked, ::testing::StartsWith("Grey it is<|im_end|>")) << turn;
  }
}

using EditedPromptsTest = AgentPromptsTest;

TEST_F(EditedPromptsTest, OnlyWhatIsNewIsRunBehindDroppedReasoning) {
  Open(llama::kThinkTemplate);
  Messages messages = {{"system", "Be brief."}, {"user", "Which colour is the cat?"}};
  Prompt prompt = PromptOf(messages, {}, Edits::kCut);
  EXPECT_THAT(prompt.left_out, ::testing::IsEmpty());
  for (size_t turn = 1; turn < 6; ++turn) {
    const Tokens told = Answer(prompt, "<think>\nWell, cats.\n</think>\n\nGrey it is");
    messages.push_back({"assistant", "Grey it is", R"({"reasoning_content": "Well, cats."})"});
    messages.push_back({"user", "Sure?"});
    if (turn % 2 == 0) Restart();
    const Prompt exact = PromptOf(messages);
    prompt = PromptOf(messages, {}, Edits::kCut);
    EXPECT_EQ(CommonLength(prompt.tokens, told), told.size()) << turn;
    EXPECT_EQ(NumRun(prompt), prompt.tokens.size() - told.size()) << turn;
    EXPECT_EQ(prompt.left_out.size(), turn);
    EXPECT_EQ(TextOf(prompt), TextOf(exact)) << turn;
    EXPECT_FALSE(prompt.parted) << turn;
    EXPECT_EQ(prompt.num_system, exact.num_system);
    EXPECT_EQ(prompt.num_last, exact.num_last);
    // The reply says its words, and those that were left out of it.
    ASSERT_EQ(prompt.text.messages.size(), messages.size());
    const TokenRange reply = prompt.text.messages[2].tokens;
    EXPECT_THAT(*engine_->Detokenize(
                    std::span(prompt.tokens).subspan(reply.begin, reply.end - reply.begin)),
                ::testing::EndsWith("Grey it is"))
        << turn;
    // A prompt that asks for no cut gets none.
    EXPECT_THAT(exact.left_out, ::testing::IsEmpty());
    EXPECT_EQ(NumRun(exact), exact.tokens.size() - CommonLength(exact.tokens, told)) << turn;
  }
}

// The messages behind it were answered with it: no turn answered what is left.
TEST_F(EditedPromptsTest, AMessageThatIsGoneIsCut) {
  Open(llama::kThinkTemplate);
  for (const bool is_restarted : {false, true}) {
    const std::string name = is_restarted ? "Restarted" : "Live";
    Messages messages = {
        {"system", "You are called " + name +
                       ". Tell people what they ask for, be "
                       "polite to all of them, and do not speak of yourself in any case."}};
    Tokens told;
    for (const std::string question : {"Name a river in the north", "Name a city in the south"}) {
      messages.push_back({"user", question + " of the country where you were born, please."});
      told = Answer(PromptOf(messages, {}, Edits::kCut), "I do not know any such place, sorry.");
      messages.push_back({"assistant", "I do not know any such place, sorry."});
    }
    messages.push_back({"user", "And where were you born?"});
    messages.erase(messages.begin() + 1, messages.begin() + 3);
    if (is_restarted) Restart();
    const Prompt prompt = PromptOf(messages, {}, Edits::kCut);
    EXPECT_EQ(prompt.left_out.size(), 1u) << name;
    EXPECT_EQ(NumRun(prompt), prompt.tokens.size() - told.size()) << name;
    EXPECT_EQ(TextOf(prompt), TextOf(PromptOf(messages))) << name;
  }
}

TEST_F(EditedPromptsTest, AnotherConversationThatAsksTheSameIsNotCut) {
  Open(llama::kThinkTemplate);
  const Messages::value_type system = {
      "system",
      "Tell people what they ask for, be polite to all of them, and do not speak of yourself."};
  const Messages::value_type question = {"user", "Which of the cities in the south is the oldest?"};
  Messages messages = {system, {"user", "My name is Ann, and my number is 48213."}};
  Answer(PromptOf(messages, {}, Edits::kCut), "I will not tell anybody.");
  messages.push_back({"assistant", "I will not tell anybody."});
  messages.push_back(question);
  Answer(PromptOf(messages, {}, Edits::kCut), "I do not know.");
  const Messages others = {system, question};
  EXPECT_THAT(PromptOf(others, {}, Edits::kCut).left_out, ::testing::IsEmpty());
}

TEST_F(EditedPromptsTest, AReplacedMessageIsRunAgain) {
  Open(llama::kThinkTemplate);
  Messages messages = {{"user", "Which colour is the cat?"}};
  Answer(PromptOf(messages, {}, Edits::kCut), "Grey it is, I think.");
  messages.push_back({"assistant", "Grey it is, I think."});
  messages.push_back({"user", "Sure?"});
  messages[0].content = "[cleared]";
  const Prompt prompt = PromptOf(messages, {}, Edits::kCut);
  EXPECT_THAT(prompt.left_out, ::testing::IsEmpty());
  EXPECT_EQ(prompt.tokens, PromptOf(messages).tokens);
}

class ToolCallsTest : public AgentPromptsTest {
 protected:
  void SetUp() override { Open(llama::kToolTemplate); }
  static std::string Said(const std::string& arguments) {
    return "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": " + arguments +
           "}\n</tool_call>";
  }
  // The assistant's message as a client sends it back.
  static llama::ChatMessage Calling(const std::string& id, const std::string& city) {
    return {"assistant", "",
            R"({"tool_calls": [{"id": ")" + id + R"(", "type": "function", "function":
                {"name": "get_weather", "arguments": "{\"city\": \")" +
                city + R"(\"}"}}]})"};
  }
  static llama::ChatMessage Returned(const std::string& id, const std::string& text) {
    return {"tool", text, R"({"tool_call_id": ")" + id + R"("})"};
  }

  const llama::ChatOptions options_ = {.tools = llama::TwoTools()};
};

TEST_F(ToolCallsTest, AReplyThatCalledAToolIsReused) {
  Messages messages = {{"user", "How is the weather in Oslo?"}};
  Prompt prompt = PromptOf(messages, options_);
  EXPECT_GT(prompt.num_system, 50u) << "the tools stay";
  const Tokens first = Answer(prompt, Said(R"({"city": "Oslo"})"));
  messages.push_back(Calling("call_1", "Oslo"));
  messages.push_back(Returned("call_1", "It rains."));
  prompt = PromptOf(messages, options_);
  EXPECT_EQ(CommonLength(prompt.tokens, first), first.size());
  EXPECT_EQ(NumRun(prompt), prompt.tokens.size() - first.size());
  EXPECT_FALSE(prompt.parted);
  // The next turn, after a restart. The client has other ids by now.
  const Tokens second = Answer(prompt, "Wet.");
  messages[1] = Calling("call_7", "Oslo");
  messages[2] = Returned("call_7", "It rains.");
  messages.push_back({"assistant", "Wet."});
  messages.push_back({"user", "And in Rome?"});
  Restart();
  prompt = PromptOf(messages, options_);
  EXPECT_EQ(CommonLength(prompt.tokens, second), second.size());
  EXPECT_EQ(NumRun(prompt), prompt.tokens.size() - second.size());
  EXPECT_FALSE(prompt.parted);
}

TEST_F(ToolCallsTest, ACallThatComesBackChangedIsReusedUpToTheChange) {
  Messages messages = {{"user", "How is the weather in Oslo?"}};
  const Prompt asked = PromptOf(messages, options_);
  const Tokens told = Answer(asked, Said(R"({"city": "Oslo"})"));
  messages.push_back(Calling("call_1", "Osaka"));
  messages.push_back(Returned("call_1", "It rains."));
  const Prompt prompt = PromptOf(messages, options_);
  const size_t num_kept = CommonLength(prompt.tokens, told);
  EXPECT_GT(num_kept, asked.tokens.size() + 40);
  EXPECT_LT(num_kept, told.size());
  ASSERT_TRUE(prompt.parted);
  EXPECT_EQ(PlaceText(*prompt.parted), "2:0") << "the template's words come in front of it";
  EXPECT_THAT(prompt.parted->asked, ::testing::StartsWith(R"(aka\"}}\n</tool_call>)"));
  EXPECT_THAT(prompt.parted->stored, ::testing::StartsWith(R"(lo\"}}\n</tool_call>)"));
}

// Other tools are another beginning. The turn is found by its messages, and left at the tools.
TEST_F(ToolCallsTest, ChangedToolsAreTold) {
  Messages messages = {{"user", "How is the weather in Oslo?"}};
  Answer(PromptOf(messages, options_), "Wet.");
  messages.push_back({"assistant", "Wet."});
  messages.push_back({"user", "Sure?"});
  llama::ChatOptions changed = options_;
  changed.tools.replace(changed.tools.find("add_note"), 8, "add_memo");
  const Prompt prompt = PromptOf(messages, changed);
  ASSERT_TRUE(prompt.parted);
  EXPECT_EQ(PlaceText(*prompt.parted), "0:0");
  EXPECT_THAT(prompt.parted->asked, ::testing::StartsWith("memo"));
}

}  // namespace
}  // namespace attndb::server
