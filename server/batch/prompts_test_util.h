// Helpers for tests of prompts: an engine with a template, a store, and turns that are kept as the
// scheduler keeps them. Each test gives the replies itself.
//
// Threads: one.
#ifndef ATTNDB_SERVER_BATCH_PROMPTS_TEST_UTIL_H_
#define ATTNDB_SERVER_BATCH_PROMPTS_TEST_UTIL_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "attndb/db.h"
#include "engines/llama/llama_engine.h"
#include "server/batch/prompts.h"
#include "server/batch/turn_id.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace attndb::server {

class KeptTurnsTest : public ::testing::Test {
 protected:
  using Messages = std::vector<llama::ChatMessage>;
  using Tokens = std::vector<TokenId>;

  static constexpr const char* kTenant = "default";

  void TearDown() override {
    if (conversations_) conversations_->WaitForStores();
  }

  // SmolLM2 with these options, and the test's store. A test may open another one behind it.
  void OpenEngine(const llama::EngineOptions& options) {
    if (conversations_) conversations_->WaitForStores();
    Result<llama::LlamaEngine> engine = llama::LlamaEngine::Open("smollm2", options);
    ASSERT_THAT(engine, ::attndb::test::IsOk());
    prompts_.reset();
    conversations_.reset();
    engine_.emplace(*std::move(engine));
    Restart();
  }
  // Forgets all but what is on disk, as a restart does.
  void Restart() {
    if (conversations_) conversations_->WaitForStores();
    prompts_.reset();
    conversations_.reset();
    db_.reset();
    Result<DB> db = DB::Open(directory_.File("store"), {});
    ASSERT_THAT(db, ::attndb::test::IsOk());
    db_.emplace(*std::move(db));
    conversations_.emplace(*db_, &*engine_, ConversationOptions{});
    prompts_.emplace(&*engine_, &*conversations_);
  }

  // Keeps a reply to the prompt, a token for each letter, and returns all tokens.
  Tokens Answer(const Prompt& prompt, const std::string& reply) {
    Tokens turn = prompt.tokens;
    for (const char c : reply) {
      for (const TokenId token : *engine_->Tokenize(std::string(1, c), false, false)) {
        turn.push_back(token);
      }
    }
    Continuation start = *conversations_->Start(kTenant, turn, "full", {}, prompt.left_out);
    EXPECT_THAT(engine_->Prefill(start.session, start.rest), ::attndb::test::IsOk());
    TextLayout text = prompt.text;
    llama::AddReply({prompt.tokens.size(), turn.size()}, &text);
    conversations_->Keep(kTenant, NewTurnId(prompt.digest), std::move(start.session), turn,
                         std::nullopt, text);
    return turn;
  }

  ::attndb::test::TempDir directory_;
  std::optional<llama::LlamaEngine> engine_;
  std::optional<DB> db_;
  std::optional<Conversations> conversations_;
  std::optional<Prompts> prompts_;
};

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_BATCH_PROMPTS_TEST_UTIL_H_
