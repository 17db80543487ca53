// Goal:   a pinned prompt is read once, is pinned, and is what conversations begin with.
// Method: SmolLM2, whose template has system messages; a scheduler of its own.
#include "server/batch/pinned_prompts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "server/batch/prompts.h"
#include "server/batch/scheduler.h"
#include "testing/event.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace attndb::server {
namespace {

using ::attndb::test::Event;
using ::attndb::test::FailsWith;
using ::testing::HasSubstr;

constexpr const char* kText = "You are the keeper of a lighthouse. Answer in one short sentence.";

class PinnedPromptsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    engine_.emplace(*llama::LlamaEngine::Open("smollm2", {.num_threads = 1}));
    db_.emplace(*DB::Open(directory_.File("store"), {}));
    conversations_.emplace(*db_, &*engine_, ConversationOptions{});
    scheduler_.emplace(&*engine_, &*conversations_, SchedulerOptions{});
  }
  void TearDown() override {
    scheduler_.reset();
    conversations_->WaitForStores();
  }
  // Whether there was something to run for it.
  bool Pin(const PinnedPrompt& prompt, const std::string& tenant = "") {
    Event ended;
    const auto on_end = [&ended](const Status& status) {
      EXPECT_THAT(status, test::IsOk());
      ended.Set();
    };
    const Result<std::shared_ptr<Turn>> turn =
        TurnOf(*engine_, &*conversations_, tenant, prompt, on_end);
    EXPECT_THAT(turn, test::IsOk());
    if (!turn.ok() || *turn == nullptr) return false;
    EXPECT_THAT(scheduler_->Add(*turn), test::IsOk());
    ended.Await();
    conversations_->WaitForStores();
    return true;
  }

  test::TempDir directory_;
  std::optional<llama::LlamaEngine> engine_;
  std::optional<DB> db_;
  std::optional<Conversations> conversations_;
  std::optional<Scheduler> scheduler_;
};

TEST_F(PinnedPromptsTest, ItIsReadOnceAndConversationsGoOnFromIt) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PinnedPrompt prompt, MakePinnedPrompt(*engine_, kText));
  EXPECT_TRUE(Pin(prompt));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextInfo info, db_->Describe(prompt.name));
  EXPECT_TRUE(info.pinned);
  EXPECT_EQ(*db_->Tokens(prompt.name), prompt.tokens);
  EXPECT_FALSE(Pin(prompt));
  // Whoever released it gets it back at the next start.
  ATTNDB_ASSERT_OK(db_->Pin(prompt.name, false));
  EXPECT_FALSE(Pin(prompt));
  EXPECT_TRUE(db_->Describe(prompt.name)->pinned);

  const Prompts prompts(&*engine_, &*conversations_);
  const std::vector<llama::ChatMessage> messages = {{"system", kText}, {"user", "Who are you?"}};
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Prompt chat, prompts.OfChat("", "", messages));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Continuation start,
                              conversations_->Start("", chat.tokens, "full"));
  EXPECT_EQ(start.session.num_tokens(), prompt.tokens.size());
  EXPECT_TRUE(std::ranges::equal(*db_->Tokens(prompt.name),
                                 std::span(chat.tokens).first(prompt.tokens.size())));
}

TEST_F(PinnedPromptsTest, EachTenantHasItsOwn) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PinnedPrompt prompt, MakePinnedPrompt(*engine_, kText));
  EXPECT_TRUE(Pin(prompt, "ann"));
  EXPECT_TRUE(Pin(prompt, "bob"));
  EXPECT_FALSE(Pin(prompt, "ann"));
  EXPECT_THAT(db_->Describe(prompt.name), FailsWith(StatusCode::kNotFound, HasSubstr("")));
}

TEST_F(PinnedPromptsTest, ANameThatHoldsOtherTokensIsTaken) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(PinnedPrompt prompt, MakePinnedPrompt(*engine_, kText));
  PinnedPrompt earlier = prompt;
  earlier.tokens.pop_back();
  EXPECT_TRUE(Pin(earlier));
  EXPECT_TRUE(Pin(prompt));
  EXPECT_EQ(*db_->Tokens(prompt.name), prompt.tokens);
  earlier = prompt;
  ++earlier.tokens.back();  // As many of them.
  EXPECT_TRUE(Pin(earlier));
  EXPECT_TRUE(Pin(prompt));
  EXPECT_EQ(*db_->Tokens(prompt.name), prompt.tokens);
  EXPECT_FALSE(Pin(prompt));
}

TEST_F(PinnedPromptsTest, WhatCantBePinnedIsRefused) {
  EXPECT_THAT(MakePinnedPrompt(*engine_, ""),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("empty")));
  std::string words;
  for (int i = 0; i < 10'000; ++i) words += "lamp ";
  EXPECT_THAT(MakePinnedPrompt(*engine_, words),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("meant for")));
}

}  // namespace
}  // namespace attndb::server
