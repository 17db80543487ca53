// Goal:   prompts that begin alike and are under way at once are read once. Each turn gives what it
//         gives alone, also if the turn that reads for the others leaves or has another window.
// Method: tiny random float32 models. A first turn holds the scheduler up until all have come.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engines/llama/engine_test_util.h"
#include "server/batch/batch_test_util.h"
#include "server/batch/scheduler.h"
#include "testing/matchers.h"

namespace attndb::server {
namespace {

using SharedPromptsTest = BatchTest;

TEST_F(SharedPromptsTest, EqualPromptsUnderWayAreReadOnce) {
  Open();
  TurnRequest request = Request("turn0", 150, 1, Greedy(10));
  const llama::Generation alone = Alone(request);
  StartScheduler();
  Block();
  std::vector<std::shared_ptr<RecordingListener>> listeners;
  for (size_t i = 0; i < 4; ++i) {
    request.id = "turn" + std::to_string(i);
    listeners.push_back(Add(request));
  }
  gate_.Set();
  for (size_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(listeners[i]->AwaitEnd());
    ATTNDB_ASSERT_OK(listeners[i]->error());
    EXPECT_EQ(listeners[i]->start()->num_cached_tokens, i == 0 ? 0u : 149u) << i;
    EXPECT_EQ(listeners[i]->start()->num_run_tokens, i == 0 ? 150u : 1u) << i;
    EXPECT_EQ(Stored("turn" + std::to_string(i)), Held(request, alone)) << i;
  }
  EXPECT_EQ(scheduler_->counts().num_prompt_tokens, 1u + 150u + 3u);
}

TEST_F(SharedPromptsTest, TheBeginningThatPromptsShareIsReadOnce) {
  Open();
  std::vector<TurnRequest> requests;
  std::vector<llama::Generation> alone;
  for (uint64_t i = 0; i < 4; ++i) {
    requests.push_back(Request("turn" + std::to_string(i), 100, 1, Greedy(10)));
    const std::vector<TokenId> own = Request("", 40, 10 + i, Greedy(1)).prompt;
    requests.back().prompt.insert(requests.back().prompt.end(), own.begin(), own.end());
    requests.back().plan = i % 2 == 0 ? "full" : "topk(k=16,sink=4,window=16)";
    alone.push_back(Alone(requests.back()));
  }
  StartScheduler();
  const auto listeners = AddAtOnce(requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    ASSERT_TRUE(listeners[i]->AwaitEnd());
    ATTNDB_ASSERT_OK(listeners[i]->error());
    EXPECT_EQ(listeners[i]->start()->num_cached_tokens, i == 0 ? 0u : 100u) << i;
    if (i % 2 == 0) {
      EXPECT_EQ(Stored(requests[i].id), Held(requests[i], alone[i])) << i;
    }
  }
  EXPECT_EQ(scheduler_->counts().num_prompt_tokens, 1u + 100u + 4u * 40u);
}

TEST_F(SharedPromptsTest, APromptGoesOnFromOneThatIsReplying) {
  Open();
  TurnRequest request = Request("first", 100, 1, Greedy(10));
  const llama::Generation alone = Alone(request);
  StartScheduler();
  const auto first = Add(request, [this] { gate_.Await(); });
  ASSERT_TRUE(first->AwaitStart());  // Its prompt is read, and it is not kept yet.
  request.id = "second";
  const auto second = Add(request);
  gate_.Set();
  ASSERT_TRUE(first->AwaitEnd());
  ASSERT_TRUE(second->AwaitEnd());
  EXPECT_EQ(second->start()->num_cached_tokens, 99u);
  EXPECT_EQ(Stored("second"), Held(request, alone));
}

TEST_F(SharedPromptsTest, AnotherTenantsPromptIsReadAnew) {
  Open();
  StartScheduler();
  Block();
  TurnRequest request = Request("turn", 100, 1, Greedy(2));
  const auto mine = Add(request);
  request.tenant = "other";
  const auto theirs = Add(request);
  gate_.Set();
  ASSERT_TRUE(mine->AwaitEnd());
  ASSERT_TRUE(theirs->AwaitEnd());
  EXPECT_EQ(theirs->start()->num_cached_tokens, 0u);
  EXPECT_EQ(scheduler_->counts().num_prompt_tokens, 1u + 2u * 100u);
}

// Tokens behind the first turn's cut have not seen all that the second turn's have to see.
TEST_F(SharedPromptsTest, WhatIsReadInASmallerWindowIsSharedUpToItsFirstCut) {
  Open();
  TurnRequest narrow = Request("narrow", 100, 1, Greedy(2));
  narrow.generate.prefill.window = {.window_tokens = 64};
  TurnRequest wide = Request("wide", 100, 1, Greedy(10));
  const llama::Generation alone = Alone(wide);
  StartScheduler();
  Block();
  const auto first = Add(narrow);
  const auto second = Add(wide);
  gate_.Set();
  ASSERT_TRUE(first->AwaitEnd());
  ASSERT_TRUE(second->AwaitEnd());
  EXPECT_GT(first->start()->num_dropped_tokens, 0u);
  EXPECT_EQ(second->start()->num_cached_tokens, 63u);
  EXPECT_EQ(second->start()->num_dropped_tokens, 0u);
  EXPECT_EQ(Stored("wide"), Held(wide, alone));
}

TEST_F(SharedPromptsTest, ATurnWhoseForerunnerLeavesGoesOnFromWhatThatHasRead) {
  // The client leaves as soon as a part of its prompt is read.
  class Leaver final : public TurnListener {
   public:
    void OnProgress(uint64_t num_run, uint64_t num_to_run) override {
      EXPECT_LT(num_run, num_to_run);
      num_run_ = num_run;
      turn->Cancel();
    }
    void OnStart(const TurnStart&) override { ADD_FAILURE() << "it was read"; }
    void OnText(std::string_view) override { ADD_FAILURE() << "a reply"; }
    void OnEnd(const TurnEnd&) override { ADD_FAILURE() << "an end"; }
    void OnError(const Status& status) override { ADD_FAILURE() << status.ToString(); }
    uint64_t num_run() const { return num_run_; }

    Turn* turn = nullptr;

   private:
    uint64_t num_run_ = 0;
  };
  Open();
  TurnRequest request = Request("leaves", 150, 1, Greedy(10));
  const llama::Generation alone = Alone(request);
  StartScheduler();
  Block();
  const auto leaver = std::make_shared<Leaver>();
  const auto turn = std::make_shared<Turn>(request, NewSession(*db_), request.prompt, leaver);
  leaver->turn = turn.get();
  ATTNDB_ASSERT_OK(scheduler_->Add(turn));
  request.id = "stays";
  const auto stays = Add(request);
  gate_.Set();
  ASSERT_TRUE(stays->AwaitEnd());
  EXPECT_GT(leaver->num_run(), 0u);
  EXPECT_EQ(stays->start()->num_cached_tokens, leaver->num_run());
  EXPECT_EQ(Stored("stays"), Held(request, alone));
}

}  // namespace
}  // namespace attndb::server
