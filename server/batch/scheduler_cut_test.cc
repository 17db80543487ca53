// Goal:   of a turn that comes to no end, as its client left, the server stops or memory ends, what
//         was run is counted, and kept where somebody may ask for it again.
// Method: tiny random float32 models; turns that are cut while they reply, or in their prompt.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engines/llama/engine_test_util.h"
#include "server/batch/batch_test_util.h"
#include "server/batch/scheduler.h"
#include "server/batch/turn_id.h"
#include "server/http/http_test_util.h"
#include "testing/event.h"
#include "testing/matchers.h"

namespace attndb::server {
namespace {

using ::attndb::test::Event;
using ::attndb::test::FailsWith;
using ::testing::_;
using ::testing::HasSubstr;

constexpr uint32_t kForEver = 1'000'000'000;  // Tokens of a reply.

// Holds the scheduler up once so many tokens of a prompt have run.
class ProgressGate final : public TurnListener {
 public:
  explicit ProgressGate(uint64_t num_tokens) : num_tokens_(num_tokens) {}

  void OnProgress(uint64_t num_run, uint64_t /*num_to_run*/) override {
    if (num_run < num_tokens_) return;
    came_.Set();
    go_.Await();
  }
  void OnStart(const TurnStart&) override { ADD_FAILURE() << "its prompt was read"; }
  void OnText(std::string_view) override {}
  void OnEnd(const TurnEnd&) override {}
  void OnError(const Status& status) override { EXPECT_EQ(status.code(), StatusCode::kCancelled); }

  void Await() { came_.Await(); }
  void Go() { go_.Set(); }

 private:
  const uint64_t num_tokens_;
  Event came_;
  Event go_;
};

using CutTurnsTest = BatchTest;

TEST_F(CutTurnsTest, WhoseClientLeftIsKeptAsFarAsItWasRun) {
  Open("llama_bpe");
  StartScheduler();
  const TurnRequest request = Request("left", 100, 1, Greedy(kForEver));
  const auto listener = std::make_shared<RecordingListener>();
  const std::shared_ptr<Turn> turn = MakeTurn(request, NewSession(*db_), listener);
  ATTNDB_ASSERT_OK(scheduler_->Add(turn));
  ASSERT_TRUE(listener->AwaitStart());
  turn->Cancel();
  scheduler_->Wake();
  ASSERT_TRUE(Eventually([&] { return conversations_->num_live() == 1; }));
  TurnRequest again = request;
  again.id = "again";
  again.generate.max_tokens = 2;
  const auto second = Add(again);
  ASSERT_TRUE(second->AwaitEnd());
  EXPECT_EQ(second->start()->num_cached_tokens, request.prompt.size() - 1);
  const std::vector<TokenId> kept = Stored("left");
  ASSERT_GE(kept.size(), request.prompt.size());
  EXPECT_TRUE(std::equal(request.prompt.begin(), request.prompt.end(), kept.begin()));
}

// Its words lead nowhere: what it has read of them is found by its tokens alone.
TEST_F(CutTurnsTest, APromptThatIsHalfReadIsKeptUnderAnotherName) {
  llama::EngineOptions options = llama::TinyOptions(llama::HookVariant::kRewrite);
  options.ubatch_tokens = 16;
  Open("llama", options);
  StartScheduler();
  const TurnRequest request = Request("half", 400, 1, Greedy(2));
  const auto listener = std::make_shared<ProgressGate>(100);
  ATTNDB_ASSERT_OK(
      scheduler_->Add(std::make_shared<Turn>(request, NewSession(*db_), request.prompt, listener)));
  listener->Await();
  std::thread stopping([this] { scheduler_->Stop(); });
  const auto stops = [&] {
    const auto late = std::make_shared<RecordingListener>();
    const TurnRequest other = Request("late", 3, 2, Greedy(1));
    return scheduler_->Add(MakeTurn(other, NewSession(*db_), late)).code() ==
           StatusCode::kCancelled;
  };
  EXPECT_TRUE(Eventually(stops));
  listener->Go();
  stopping.join();
  conversations_->WaitForStores();
  EXPECT_THAT(db_->Tokens("half"), FailsWith(StatusCode::kNotFound, _));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Continuation start,
                              conversations_->Start("default", request.prompt, "full"));
  EXPECT_EQ(start.session.num_tokens(), 112u);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const std::vector<ContextInfo> contexts, db_->List());
  ASSERT_EQ(contexts.size(), 1u);
  EXPECT_EQ(contexts[0].num_tokens, 112u);
  EXPECT_FALSE(DigestIn(contexts[0].name));
}

TEST_F(CutTurnsTest, WhatIsNoConversationIsNotKeptWhenItIsCut) {
  Open();
  StartScheduler();
  TurnRequest request = Request("import", 3, 1, Greedy(kForEver));
  request.cut_id = "";
  const auto active = Add(request);
  ASSERT_TRUE(active->AwaitStart());
  scheduler_->Stop();
  EXPECT_THAT(active->error(), FailsWith(StatusCode::kCancelled, HasSubstr("stops")));
  EXPECT_EQ(conversations_->num_live(), 0u);
}

TEST_F(CutTurnsTest, TokensAreCountedHoweverTheirTurnEnds) {
  Open();
  // Its memory ends with the reply.
  const DB small = OpenSmall();
  StartScheduler();
  uint64_t num_counted = 0;
  const auto counted = [&](const TurnRequest& request, const DB& db,
                           const std::shared_ptr<RecordingListener>& listener) {
    std::shared_ptr<Turn> turn = MakeTurn(request, NewSession(db), listener);
    num_counted = 0;
    turn->CountWith([&num_counted](uint64_t num_tokens) { num_counted += num_tokens; });
    ATTNDB_EXPECT_OK(scheduler_->Add(turn));
    return turn;
  };
  const auto whole = std::make_shared<RecordingListener>();
  counted(Request("whole", 100, 1, Greedy(7)), *db_, whole);
  ASSERT_TRUE(whole->AwaitEnd());
  EXPECT_EQ(num_counted, 100u + 7u);
  EXPECT_EQ(whole->num_tokens(), 7u);

  const auto poor = std::make_shared<RecordingListener>();
  counted(Request("poor", 2, 4, Greedy(5000)), small, poor);
  ASSERT_TRUE(poor->AwaitEnd());
  EXPECT_THAT(poor->error(), FailsWith(StatusCode::kResourceExhausted, _));
  EXPECT_GT(poor->num_tokens(), 0u);
  EXPECT_EQ(num_counted, 2u + poor->num_tokens());

  const auto left = std::make_shared<RecordingListener>();
  auto turn = counted(Request("left", 10, 5, Greedy(kForEver)), *db_, left);
  ASSERT_TRUE(left->AwaitStart());
  turn->Cancel();
  turn.reset();
  scheduler_->Wake();
  EXPECT_TRUE(Eventually([&] { return scheduler_->num_active() == 0; }));
  EXPECT_EQ(num_counted, 10u + left->num_tokens());
}

}  // namespace
}  // namespace attndb::server
