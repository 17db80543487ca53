// Goal:   an agent's conversation is recognized although its template leaves out earlier reasoning,
//         and although its assistant's messages are tool calls: only what comes behind the part
//         that was left out is run. With "edits": "cut" only what is new is run.
// Method: SmolLM2's vocabulary under templates of the tests. Turns are kept as the scheduler keeps
//         them; replies are the tests' own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "attndb/db.h"
#include "engines/llama/chat/chat_test_util.h"
#include "engines/llama/llama_engine.h"
#include "server/batch/edits.h"
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
  std::string NewestTurn() {
    conversations_->WaitForStores();
    return std::ranges::max(*db_->List(), {}, &ContextInfo::id).name;
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

// No turn answered the messages that the client sends. The one that it means is known by its
// tokens.
TEST_F(AgentPromptsTest, AChangedSystemMessageIsNamedAlsoAfterARestart) {
  Open(llama::kThinkTemplate);
  const std::string rules =
      "Tell people what they ask for, be polite to all of them, do not speak of yourself in any "
      "case, and answer in one sentence that even a child understands. Today is ";
  Messages messages = {{"system", rules + "Monday."}, {"user", "Which colour is the cat?"}};
  for (int turn = 0; turn < 2; ++turn) {
    Answer(PromptOf(messages), "Grey it is");
    messages.push_back({"assistant", "Grey it is"});
    messages.push_back({"user", "Sure?"});
  }
  messages[0].content = rules + "Sunday.";
  for (const bool is_restarted : {false, true}) {
    if (is_restarted) {
      Restart();
      // It shares the template's first tokens.
      Answer(PromptOf({{"system", "Be brief."}, {"user", "Are you there?"}}), "Yes I am");
      ASSERT_EQ(conversations_->num_live(), 1u);
    }
    const uint64_t num_lookups = db_->Stats()->num_lookups;
    const Prompt prompt = PromptOf(messages);
    PromptOf(messages, {}, Edits::kCut);
    EXPECT_EQ(db_->Stats()->num_lookups, num_lookups) << "nothing is used yet";
    ASSERT_TRUE(prompt.parted) << is_restarted;
    EXPECT_EQ(PlaceText(*prompt.parted), "0:" + std::to_string(rules.size())) << is_restarted;
    EXPECT_THAT(prompt.parted->asked, ::testing::StartsWith("Sunday.")) << is_restarted;
    EXPECT_THAT(prompt.parted->stored, ::testing::StartsWith("Monday.")) << is_restarted;
  }
  // A question with as many messages as the stored turns have follows none of them.
  const Messages question = {{"system", rules + "Tuesday."}, {"user", "Which colour is the dog?"}};
  EXPECT_FALSE(PromptOf(question).parted);
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

// With and without "cut" it says the same. Without, what is behind the piece is run again.
TEST_F(EditedPromptsTest, AContextSaysWhatIsLeftOfIt) {
  Open(llama::kThinkTemplate);
  Messages messages = {{"system", "Be brief."}, {"user", "Which colour is the cat?"}};
  Prompt prompt = PromptOf(messages, {}, Edits::kCut);
  Tokens told;
  for (int turn = 0; turn < 2; ++turn) {
    told = Answer(prompt, "<think>\nWell, cats.\n</think>\n\nGrey it is");
    messages.push_back({"assistant", "Grey it is", R"({"reasoning_content": "Well, cats."})"});
    messages.push_back({"user", "Sure?"});
    if (turn == 0) prompt = PromptOf(messages, {}, Edits::kCut);
  }
  const std::vector<TokenRange> left_out = prompt.left_out;
  ASSERT_EQ(left_out.size(), 1u);
  const std::string name = NewestTurn();
  const std::string said = *engine_->Detokenize(Without(told, left_out), /*render_special=*/true);
  const Messages question = {{"user", "Why?"}};
  for (const bool is_restarted : {false, true}) {
    if (is_restarted) Restart();
    ATTNDB_ASSERT_OK_AND_ASSIGN(const Prompt exact, prompts_->OfChat(kTenant, name, question));
    EXPECT_THAT(TextOf(exact), ::testing::StartsWith(said)) << is_restarted;
    EXPECT_TRUE(exact.left_out.empty());
    EXPECT_EQ(NumRun(exact), exact.tokens.size() - left_out[0].begin) << is_restarted;
    ATTNDB_ASSERT_OK_AND_ASSIGN(const Prompt cut,
                                prompts_->OfChat(kTenant, name, question, {}, {}, Edits::kCut));
    EXPECT_EQ(TextOf(cut), TextOf(exact)) << is_restarted;
    EXPECT_EQ(cut.left_out, left_out) << is_restarted;
    EXPECT_EQ(NumRun(cut), cut.tokens.size() - told.size()) << is_restarted;
    EXPECT_EQ(cut.text.messages.size(), exact.text.messages.size());
    ATTNDB_ASSERT_OK_AND_ASSIGN(const Prompt text, prompts_->OfText(kTenant, name, "And"));
    EXPECT_THAT(TextOf(text), ::testing::StartsWith(said)) << is_restarted;
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

// Six turns answered the same, and none of them said what the client says.
TEST_F(EditedPromptsTest, TheSearchForPiecesEndsAndCanBeCancelled) {
  Open(llama::kThinkTemplate);
  Messages messages = {
      {"system", "Tell people what they ask for, be polite to all of them, and do not hurry."},
      {"user", "Which of the colours that a cat may have is the one that you like the most?"}};
  for (const std::string colour : {"Grey", "Red", "Black", "White", "Brown", "Blue"}) {
    Answer(PromptOf(messages, {}, Edits::kCut), colour + " it is, I think.");
  }
  messages.push_back({"assistant", "Green it is, of all the colours that there are."});
  messages.push_back({"user", "Sure?"});
  size_t num_searches = 0;
  size_t num_wanted = SIZE_MAX;
  const Prompts::Limits limits = {
      .progress = [&](uint64_t, uint64_t) { return ++num_searches <= num_wanted; }};
  const auto make = [&](Edits edits) {
    num_searches = 0;
    return prompts_->OfChat(kTenant, "", messages, {}, limits, edits).status();
  };
  ATTNDB_EXPECT_OK(make(Edits::kExact));
  EXPECT_EQ(num_searches, 0u);
  ATTNDB_EXPECT_OK(make(Edits::kCut));
  EXPECT_GE(num_searches, kMaxSearched);
  EXPECT_LE(num_searches, 2 * kMaxSearched);
  num_wanted = 1;
  EXPECT_EQ(make(Edits::kCut).code(), StatusCode::kCancelled);
  EXPECT_EQ(num_searches, 2u);
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
