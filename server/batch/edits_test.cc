// Goal:   a turn goes on from a stored one without some of its tokens, and only what is new is run;
//         the next turn does, too, also after a restart; what does not ask for this gets none of
//         it.
// Method: random tokens with ranges that leave; a tiny random float32 model, whose sessions lose
//         the same tokens by hand.
#include "server/batch/edits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engines/llama/engine_test_util.h"
#include "engines/llama/window.h"
#include "server/batch/batch_test_util.h"
#include "server/chat/edits_way.h"
#include "testing/matchers.h"

namespace attndb::server {
namespace {

using ::attndb::test::FailsWith;
using ::testing::_;
using ::testing::ElementsAre;
using Ranges = std::vector<TokenRange>;
using Tokens = std::vector<TokenId>;

constexpr const char* kTenant = "default";

TEST(EditsTest, RangesLeaveAndComeBack) {
  const Tokens all = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  const Ranges left_out = {{2, 4}, {7, 8}};
  Tokens kept = Without(all, left_out);
  EXPECT_THAT(kept, ElementsAre(0, 1, 4, 5, 6, 8, 9));
  PutBack(all, left_out, &kept);
  EXPECT_EQ(kept, all);
  EXPECT_EQ(Without(all, {}), all);
}

TEST(EditsTest, MessagesMoveWithTheirTokens) {
  const Ranges left_out = {{2, 4}, {7, 8}};
  TextLayout text = {
      TextForm::kDialogue,
      {{TextRole::kUser, {0, 2}}, {TextRole::kAssistant, {2, 4}}, {TextRole::kUser, {4, 7}}}};
  PutBack(left_out, &text);
  ASSERT_EQ(text.messages.size(), 3u);
  EXPECT_EQ(text.messages[0].tokens, (TokenRange{0, 2}));
  EXPECT_EQ(text.messages[1].tokens, (TokenRange{4, 6}));
  EXPECT_EQ(text.messages[2].tokens, (TokenRange{6, 10}));
  EXPECT_EQ(text.left_out, left_out);
}

TEST(EditsTest, TheirNamesAreThoseOfRequestsAndFlags) {
  EXPECT_EQ(EditsNamed("exact"), Edits::kExact);
  EXPECT_EQ(EditsNamed("cut"), Edits::kCut);
  for (const char* const other : {"", "Cut", "cuts", "exact or cut"}) {
    EXPECT_EQ(EditsNamed(other), std::nullopt) << other;
  }
}

TEST(EditsTest, APieceThatLeftHasNoWords) {
  KeptText kept = {
      .tokens = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9},
      .text = {TextForm::kDialogue,
               {{TextRole::kUser, {0, 2}}, {TextRole::kOther, {3, 4}}, {TextRole::kUser, {4, 9}}}},
      .left_out = {{2, 4}, {7, 8}}};
  TakeOutPieces(&kept);
  EXPECT_THAT(kept.tokens, ElementsAre(0, 1, 4, 5, 6, 8, 9));
  EXPECT_THAT(kept.text.messages, ElementsAre(TextMessage{TextRole::kUser, {0, 2}},
                                              TextMessage{TextRole::kUser, {2, 6}}));
  EXPECT_TRUE(kept.left_out.empty());
}

class EditedTurnsTest : public BatchTest {
 protected:
  static uint64_t Seed(const std::string& id) { return static_cast<unsigned char>(id[0]); }
  // A request that goes on from what is stored as `from`.
  TurnRequest GoingOn(const std::string& id, const std::string& from, Ranges left_out) {
    TurnRequest request = Request(id, kNew, Seed(id), Greedy(6));
    request.prompt = Joined(Stored(from), request.prompt);
    PutBack(left_out, &request.text);
    request.left_out = std::move(left_out);
    return request;
  }
  TurnStart Run(const TurnRequest& request) {
    const auto listener = Add(request);
    if (!listener->AwaitEnd()) return {};
    EXPECT_EQ(listener->end()->num_dropped_tokens, 0u);
    return *listener->start();
  }
  void Restart() {
    scheduler_.reset();
    conversations_->WaitForStores();
    conversations_.emplace(*db_, &*engine_, ConversationOptions{});
    StartScheduler();
  }

  static constexpr size_t kNew = 20;
};

TEST_F(EditedTurnsTest, OnlyNewTokensAreRun) {
  Open();
  const TurnRequest first = Request("a", 100, 1, Greedy(6));
  const llama::Generation told = Alone(first);
  const Tokens held = Held(first, told);
  const Ranges left_out = {{30, 50}, {60, 70}};
  const Tokens added = Request("b", kNew, Seed("b"), {}).prompt;
  Session session = SessionOf(kTenant, held);
  ATTNDB_ASSERT_OK(llama::LeaveOut(left_out, &session));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const llama::Generation expected,
                              engine_->Generate(session, added, Greedy(6)));
  StartScheduler();
  Run(first);
  const TurnRequest second = GoingOn("b", "a", left_out);
  const TurnStart start = Run(second);
  EXPECT_EQ(start.num_run_tokens, kNew);
  EXPECT_EQ(start.num_cut_tokens, 30u);
  EXPECT_EQ(start.num_cached_tokens, held.size() - 30);
  EXPECT_EQ(start.num_prompt_tokens, held.size() - 30 + kNew);
  EXPECT_EQ(start.num_dropped_tokens, 0u);
  EXPECT_EQ(Stored("b"), Held(second, expected));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextInfo stored, db_->Describe("b"));
  EXPECT_THAT(stored.cuts, ElementsAre(Cut{held.size(), left_out}));
}

TEST_F(EditedTurnsTest, FurtherPiecesLeaveAlsoAfterARestart) {
  Open();
  StartScheduler();
  Run(Request("a", 100, 1, Greedy(6)));
  Run(GoingOn("b", "a", {{30, 50}}));
  for (const bool is_restarted : {false, true}) {
    if (is_restarted) Restart();
    const std::string id = is_restarted ? "d" : "c";
    const TurnStart start = Run(GoingOn(id, "b", {{30, 50}, {105, 115}}));
    EXPECT_EQ(start.num_run_tokens, kNew) << id;
    EXPECT_EQ(start.num_cut_tokens, 30u) << id;
    conversations_->WaitForStores();
    ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextInfo stored, db_->Describe(id));
    EXPECT_EQ(stored.cuts.size(), 2u);
    EXPECT_EQ(stored.num_dropped, 30u);
  }
}

// It has the tokens that were cut: what was computed without them is run again.
TEST_F(EditedTurnsTest, APromptWithAllTokensIsExact) {
  Open();
  StartScheduler();
  Run(Request("a", 100, 1, Greedy(6)));
  const size_t num_stored = Stored("a").size();
  Run(GoingOn("b", "a", {{30, 50}}));
  for (const bool is_restarted : {false, true}) {
    if (is_restarted) Restart();
    const TurnRequest request = GoingOn(is_restarted ? "d" : "c", "b", {});
    const TurnStart start = Run(request);
    EXPECT_LE(start.num_cached_tokens, num_stored);
    EXPECT_GE(start.num_cached_tokens, num_stored - 1);
    EXPECT_EQ(start.num_cut_tokens, 0u);
    EXPECT_EQ(start.num_cached_tokens + start.num_run_tokens, request.prompt.size());
    conversations_->WaitForStores();
    ATTNDB_ASSERT_OK(db_->Drop(request.id));
  }
}

// A prompt beyond the window, whose overflow drops the oldest tokens, takes no others away.
TEST_F(EditedTurnsTest, AnExactPromptBeyondTheWindowDoesNotGoOnBehindAPiece) {
  Open();
  StartScheduler();
  Run(Request("a", 100, 1, Greedy(6)));
  const size_t num_stored = Stored("a").size();
  Run(GoingOn("b", "a", {{30, 50}}));
  const Tokens prompt = Stored("b");
  for (const bool is_restarted : {false, true}) {
    if (is_restarted) Restart();
    ATTNDB_ASSERT_OK_AND_ASSIGN(
        const Continuation start,
        conversations_->Start(kTenant, prompt, "full", {.window_tokens = 100}));
    EXPECT_LE(start.session.num_tokens(), num_stored) << is_restarted;
    EXPECT_TRUE(start.session.cuts().empty()) << is_restarted;
  }
}

TEST_F(EditedTurnsTest, ATurnThatIsNotAllThereCannotBeCut) {
  Open();
  Session session = SessionOf(kTenant, Request("a", 40, 1, {}).prompt);
  conversations_->Keep(kTenant, "a", std::move(session), Request("a", 40, 1, {}).prompt);
  const TurnRequest asked = Request("a", 100, 1, {});
  const auto start = [&](const Ranges& left_out) {
    return conversations_->Start(kTenant, asked.prompt, "full", {}, left_out);
  };
  EXPECT_THAT(start({{30, 50}}), FailsWith(StatusCode::kInvalidArgument, _));
  EXPECT_THAT(start({{30, 40}}), FailsWith(StatusCode::kInvalidArgument, _));
}

}  // namespace
}  // namespace attndb::server
