// Goal:   whoever comes back is continued from the longest part that is known, in memory or on
//         disk, as if all had been run again; turns are found by what they answered; nobody finds
//         what is another tenant's.
// Method: tiny random float32 models: logits behind what was reused, against plain runs. A turn is
//         kept as the scheduler keeps it.
#include "server/batch/conversations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engines/llama/engine_test_util.h"
#include "server/batch/batch_test_util.h"
#include "server/batch/turn_id.h"
#include "testing/matchers.h"

namespace attndb::server {
namespace {

using ::attndb::test::FailsWith;
using ::testing::_;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Messages = std::vector<llama::ChatMessage>;
using Tokens = std::vector<TokenId>;

class ConversationsTest : public BatchTest {
 protected:
  Tokens Ids(size_t count, uint64_t seed) const {
    return llama::RandomIds(count, seed, engine_->info().vocab_size);
  }
  void Keep(const std::string& tenant, const std::string& id, const Tokens& tokens) {
    conversations_->Keep(tenant, id, SessionOf(tenant, tokens), tokens);
  }
  // How many tokens of the prompt are known.
  size_t NumKnown(const std::string& tenant, const Tokens& prompt) {
    const Result<Continuation> start = conversations_->Start(tenant, prompt, "full");
    EXPECT_THAT(start, ::attndb::test::IsOk());
    if (!start.ok()) return 0;
    EXPECT_EQ(start->session.num_tokens() + start->rest.size(), prompt.size());
    EXPECT_EQ(start->rest,
              Tokens(prompt.end() - static_cast<std::ptrdiff_t>(start->rest.size()), prompt.end()));
    return start->session.num_tokens();
  }
  // The rest of the prompt gives what the whole gives when it is run by plain llama.cpp.
  void ExpectExact(const std::string& tenant, const Tokens& prompt) {
    ATTNDB_ASSERT_OK_AND_ASSIGN(Continuation start, conversations_->Start(tenant, prompt, "full"));
    ATTNDB_ASSERT_OK_AND_ASSIGN(const llama::LogitRows ours,
                                llama::EngineRows(*engine_, start.session, start.rest));
    ATTNDB_ASSERT_OK_AND_ASSIGN(const llama::LogitRows plain, llama::PlainRows(*engine_, prompt));
    EXPECT_LT(llama::LargestDifference(ours, plain, prompt.size() - start.rest.size()), 1e-3);
  }
  TurnState StateOf(const std::string& tenant, const std::string& id) {
    Status error;
    return conversations_->StateOf(tenant, id, &error);
  }
  // As after a restart: only the store is left.
  void Forget() {
    conversations_->WaitForStores();
    conversations_.emplace(*db_, &*engine_, ConversationOptions{});
  }
  // As in another process: nothing that was read is in memory.
  void Reopen() {
    conversations_.reset();
    db_.reset();
    ATTNDB_ASSERT_OK_AND_ASSIGN(db_, DB::Open(directory_.File("store"), {}));
    conversations_.emplace(*db_, &*engine_, ConversationOptions{});
  }
};

TEST_F(ConversationsTest, NothingIsKnownAtFirst) {
  Open();
  EXPECT_EQ(NumKnown(kMine, Ids(20, 1)), 0u);
  EXPECT_EQ(conversations_->num_live(), 0u);
  EXPECT_EQ(conversations_->num_pending(), 0u);
}

TEST_F(ConversationsTest, ATurnIsContinuedExactlyFromMemoryOrFromDisk) {
  Open();
  const Tokens turn = Ids(90, 1);
  Keep(kMine, "turn", turn);
  const Tokens next = Joined(turn, Ids(10, 2));
  EXPECT_EQ(NumKnown(kMine, next), 90u);
  ExpectExact(kMine, next);
  Forget();
  EXPECT_EQ(conversations_->num_live(), 0u);
  EXPECT_EQ(NumKnown(kMine, next), 90u);
  ExpectExact(kMine, next);
}

TEST_F(ConversationsTest, AnyNumberOfRequestsContinueOneTurn) {
  Open();
  const Tokens turn = Ids(50, 1);
  Keep(kMine, "turn", turn);
  for (uint64_t i = 0; i < 4; ++i) ExpectExact(kMine, Joined(turn, Ids(5 + i, 10 + i)));
  EXPECT_EQ(NumKnown(kMine, Joined(turn, Ids(5, 20))), 50u) << "it is still there, and still whole";
  EXPECT_EQ(conversations_->num_live(), 1u);
}

TEST_F(ConversationsTest, WhatIsSharedIsReusedToTheToken) {
  Open();
  const Tokens turn = Ids(60, 1);
  Keep(kMine, "turn", turn);
  for (const bool is_live : {true, false}) {
    for (const size_t shared : {1u, 33u, 59u}) {
      Tokens prompt(turn.begin(), turn.begin() + static_cast<std::ptrdiff_t>(shared));
      prompt.push_back(turn[shared] == 7 ? 8 : 7);
      prompt = Joined(std::move(prompt), Ids(9, 3));
      EXPECT_EQ(NumKnown(kMine, prompt), shared) << is_live;
      ExpectExact(kMine, prompt);
    }
    EXPECT_EQ(NumKnown(kMine, turn), 59u) << "a token is left to run";
    ExpectExact(kMine, turn);
    EXPECT_EQ(NumKnown(kMine, Ids(1, 1)), 0u);
    Forget();
  }
}

TEST_F(ConversationsTest, TheLongestIsTakenWhereverItIs) {
  Open();
  const Tokens turn = Ids(80, 1);
  Keep(kMine, "long", turn);
  Forget();
  Tokens sibling(turn.begin(), turn.begin() + 30);
  sibling = Joined(std::move(sibling), Ids(10, 2));
  Keep(kMine, "sibling", sibling);
  EXPECT_EQ(NumKnown(kMine, Joined(turn, {1, 2})), 80u) << "on disk";
  EXPECT_EQ(NumKnown(kMine, Joined(sibling, {1, 2})), 40u) << "in memory";
}

TEST_F(ConversationsTest, ALargerWindowRunsAgainWhatASmallerOneDropped) {
  Open();
  const llama::WindowOptions small = {.window_tokens = 64};
  const Tokens turn = Ids(110, 1);
  Session session = NewSession(*conversations_->HandleOf(kMine));
  ATTNDB_ASSERT_OK(engine_->Prefill(session, turn, {.window = small}));
  ASSERT_EQ(session.num_dropped(), 64u);
  conversations_->Keep(kMine, "turn", std::move(session), turn);
  const Tokens next = Joined(turn, Ids(10, 2));
  for (const bool is_live : {true, false}) {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const Continuation cut,
                                conversations_->Start(kMine, next, "full", small));
    EXPECT_EQ(cut.session.num_tokens(), 110u) << is_live;
    EXPECT_EQ(cut.session.num_dropped(), 64u) << is_live;
    ATTNDB_ASSERT_OK_AND_ASSIGN(const Continuation whole,
                                conversations_->Start(kMine, next, "full", {.window_tokens = 128}));
    EXPECT_EQ(whole.session.num_tokens(), is_live ? 63u : 64u) << "up to the first cut";
    EXPECT_EQ(whole.session.num_dropped(), 0u) << is_live;
    ExpectExact(kMine, next);  // Without a limit.
    Forget();
  }
}

TEST_F(ConversationsTest, WhatIsCheaperToRunThanToReadIsRun) {
  Open();
  const Tokens turn = Ids(90, 1);
  const Tokens next = Joined(turn, Ids(10, 2));
  Keep(kMine, "turn", turn);
  Forget();
  ReusePrices& prices = conversations_->prices();
  prices.LearnRead(uint64_t{1} << 20, 1e6);
  EXPECT_EQ(NumKnown(kMine, next), 90u) << "no prompt was run yet";
  Forget();  // The price that was told is gone, and so is what was loaded.
  Reopen();
  conversations_->prices().LearnRead(uint64_t{1} << 20, 1e6);
  conversations_->prices().LearnRun(1e-3);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Continuation run, conversations_->Start(kMine, next, "full"));
  EXPECT_EQ(run.reuse.way, ReuseWay::kRun);
  EXPECT_EQ(run.reuse.num_tokens, 90u);
  EXPECT_GT(run.reuse.num_bytes, 0u);
  EXPECT_EQ(run.rest, next) << "from the first token";
  EXPECT_EQ(conversations_->prices().num_declined_tokens(), 90u);
  ExpectExact(kMine, next);
  conversations_->prices().LearnRun(1e9);
  ATTNDB_ASSERT_OK_AND_ASSIGN(Continuation read, conversations_->Start(kMine, next, "full"));
  EXPECT_EQ(read.reuse.way, ReuseWay::kDisk);
  EXPECT_TRUE(read.is_unread);
  conversations_->Load(&read.session);
  EXPECT_EQ(read.session.num_tokens(), 90u);
  Keep(kMine, "turn2", turn);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Continuation live, conversations_->Start(kMine, next, "full"));
  EXPECT_EQ(live.reuse.way, ReuseWay::kMemory);
  EXPECT_EQ(live.reuse.num_bytes, 0u);
  EXPECT_FALSE(live.is_unread);
}

TEST_F(ConversationsTest, TheLastOnesStayInMemory) {
  Open("llama", llama::TinyOptions(llama::HookVariant::kRewrite), {.max_live = 2});
  for (uint64_t i = 0; i < 5; ++i) Keep(kMine, "turn" + std::to_string(i), Ids(10, i));
  EXPECT_EQ(conversations_->num_live(), 2u);
  conversations_->WaitForStores();
  for (uint64_t i = 0; i < 5; ++i) EXPECT_EQ(NumKnown(kMine, Joined(Ids(10, i), {1})), 10u);
  conversations_->DropLive();
  EXPECT_EQ(conversations_->num_live(), 0u);
  for (uint64_t i = 0; i < 5; ++i) EXPECT_EQ(NumKnown(kMine, Joined(Ids(10, i), {1})), 10u);
}

// What is in memory for the next turn must not keep the quota full for ever.
TEST_F(ConversationsTest, WhatIsDroppedIsInMemoryNoMore) {
  Open();
  const Tokens turn = Ids(40, 1);
  const Tokens longer = Joined(turn, Ids(30, 2));
  Keep(kMine, "turn", turn);
  Keep(kTheirs, "turn", turn);
  conversations_->WaitForStores();
  ATTNDB_ASSERT_OK(conversations_->HandleOf(kMine)->Rename("turn", "named"));
  EXPECT_THAT(conversations_->Drop(kMine, "turn"), FailsWith(StatusCode::kNotFound, _));
  EXPECT_EQ(NumKnown(kMine, longer), 40u);
  ATTNDB_EXPECT_OK(conversations_->Drop(kMine, "named"));
  EXPECT_EQ(NumKnown(kMine, longer), 0u);
  EXPECT_EQ(NumKnown(kTheirs, longer), 40u) << "what another tenant has is another context";
  EXPECT_EQ(conversations_->num_live(), 1u);
}

TEST_F(ConversationsTest, WhereRoomLacksTheTenantsOldestAreLetGoOf) {
  Open();
  for (uint64_t i = 0; i < 3; ++i) Keep(kMine, "turn" + std::to_string(i), Ids(20, i));
  Keep(kTheirs, "theirs", Ids(20, 7));
  conversations_->WaitForStores();
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB mine, conversations_->HandleOf(kMine));
  ATTNDB_ASSERT_OK(mine.WaitForBackground());
  const uint64_t used = mine.Stats()->file_bytes + mine.Stats()->companion_bytes;
  ATTNDB_ASSERT_OK(mine.SetQuota(used + used / 10));
  EXPECT_THAT(mine.CheckRoom(engine_->spec(), Ids(20, 9)),
              FailsWith(StatusCode::kResourceExhausted, HasSubstr("in use")));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const RoomReport room, conversations_->CheckRoom(kMine, Ids(20, 9)));
  EXPECT_EQ(room.evicted, std::vector<std::string>{"turn0"});
  EXPECT_EQ(conversations_->num_live(), 3u);
  Keep(kMine, "next", Ids(20, 9));
  ATTNDB_EXPECT_OK(conversations_->WaitFor(kMine, "next"));
  // What can't be made is not: all of the tenant's are gone then, and nobody else's.
  ATTNDB_ASSERT_OK(mine.SetQuota(1));
  EXPECT_THAT(conversations_->CheckRoom(kMine, Ids(20, 8)),
              FailsWith(StatusCode::kResourceExhausted, HasSubstr("quota of 1 B")));
  EXPECT_EQ(conversations_->num_live(), 1u);
}

TEST_F(ConversationsTest, ATurnTakesThePlaceOfTheOneThatItContinues) {
  Open();
  const Tokens first = Ids(20, 1);
  Keep(kMine, "first", first);
  const Tokens second = Joined(first, Ids(10, 2));
  Keep(kMine, "second", second);
  EXPECT_EQ(conversations_->num_live(), 1u);
  Keep(kTheirs, "third", second);
  EXPECT_EQ(conversations_->num_live(), 2u) << "nobody takes another tenant's";
  // Who goes on from the first all the same.
  const Tokens other = Joined(first, {second[20] == 7 ? 8 : 7, 5, 6});
  EXPECT_EQ(NumKnown(kMine, other), 20u);
  ExpectExact(kMine, other);
}

TEST_F(ConversationsTest, AnotherTenantFindsNothing) {
  Open();
  const std::string digest = DigestsOf(Messages{{"user", "Hi"}})->back();
  const std::string id = NewTurnId(digest);
  const Tokens turn = Ids(20, 1);
  Keep(kMine, id, turn);
  for (const bool is_live : {true, false}) {
    for (const char* const other : {kTheirs, "default", ""}) {
      EXPECT_EQ(NumKnown(other, Joined(turn, {5})), 0u) << other << is_live;
      EXPECT_EQ(StateOf(other, id), TurnState::kUnknown) << other << is_live;
      EXPECT_THAT(*conversations_->Candidates(other, digest), IsEmpty()) << other << is_live;
    }
    EXPECT_EQ(conversations_->Candidates(kMine, digest)->size(), 1u) << is_live;
    Forget();
  }
}

TEST_F(ConversationsTest, TenantsHaveNames) {
  Open();
  EXPECT_THAT(conversations_->HandleOf("a/b"), FailsWith(StatusCode::kInvalidArgument, _));
  EXPECT_THAT(conversations_->Start("a/b", Ids(3, 1), "full"),
              FailsWith(StatusCode::kInvalidArgument, _));
  EXPECT_EQ(StateOf("a/b", "turn"), TurnState::kUnknown);
  EXPECT_EQ(conversations_->HandleOf("alice")->tenant(), "alice");
  EXPECT_EQ(conversations_->HandleOf("")->tenant(), "default");
  EXPECT_EQ(conversations_->HandleOf("default")->tenant(), "default");
}

TEST_F(ConversationsTest, PlansThatAreNoneAreRefusedWhateverIsKnown) {
  Open();
  const Tokens turn = Ids(20, 1);
  EXPECT_THAT(conversations_->Start(kMine, turn, "nonsense"),
              FailsWith(StatusCode::kInvalidArgument, _));
  Keep(kMine, "turn", turn);
  EXPECT_THAT(conversations_->Start(kMine, Joined(turn, {5}), "nonsense"),
              FailsWith(StatusCode::kInvalidArgument, _));
}

TEST_F(ConversationsTest, ATurnIsPendingThenDurable) {
  Open();
  EXPECT_EQ(StateOf(kMine, "turn"), TurnState::kUnknown);
  Keep(kMine, "turn", Ids(30, 1));
  const TurnState state = StateOf(kMine, "turn");
  EXPECT_TRUE(state == TurnState::kPending || state == TurnState::kDurable);
  conversations_->WaitForStores();
  EXPECT_EQ(StateOf(kMine, "turn"), TurnState::kDurable);
  EXPECT_EQ(conversations_->num_pending(), 0u);
  Keep(kMine, "next", Ids(10, 2));  // Which forgets what is done.
  EXPECT_EQ(StateOf(kMine, "turn"), TurnState::kDurable);
  Forget();
  EXPECT_EQ(StateOf(kMine, "turn"), TurnState::kDurable) << "whoever asks";
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, conversations_->HandleOf(kMine));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Tokens tokens, db.Tokens("turn"));
  EXPECT_EQ(tokens, Ids(30, 1));
}

TEST_F(ConversationsTest, WhatALoadTookSaysWhatTheNextTakes) {
  Open();
  const Tokens turn = Ids(400, 1);
  Keep(kMine, "turn", turn);
  Forget();
  Reopen();
  const auto price = [this] { return conversations_->prices().PriceOf(100, uint64_t{1} << 20); };
  EXPECT_EQ(price().read_seconds, 0.0);
  ATTNDB_ASSERT_OK_AND_ASSIGN(Continuation start,
                              conversations_->Start(kMine, Joined(turn, Ids(5, 2)), "full"));
  ASSERT_TRUE(start.is_unread);
  ASSERT_GE(start.reuse.num_bytes, uint64_t{64} << 10) << "enough to tell a disk's rate";
  conversations_->Load(&start.session);
  EXPECT_GT(price().read_seconds, 0.0);
}

TEST_F(ConversationsTest, ATurnsTimeToLiveIsTheServers) {
  Open("llama", llama::TinyOptions(llama::HookVariant::kRewrite),
       {.ttl = std::chrono::seconds(3600)});
  Keep(kMine, "turn", Ids(10, 1));
  conversations_->WaitForStores();
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, conversations_->HandleOf(kMine));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextInfo info, db.Describe("turn"));
  EXPECT_THAT(info.ToJson(), HasSubstr("3600"));
}

// Whether they have the words of a reply is not compared here.
TEST_F(ConversationsTest, TurnsAreFoundByWhatTheyAnswered) {
  Open();
  const Messages asked = {{"user", "Hi"}};
  const std::string digest = DigestsOf(asked)->back();
  const auto found = [&] {
    std::vector<Tokens> all;
    for (KeptText& turn : *conversations_->Candidates(kMine, digest)) all.push_back(turn.tokens);
    return all;
  };
  EXPECT_THAT(found(), IsEmpty());
  Keep(kMine, NewTurnId(DigestsOf(Messages{{"user", "Ho"}})->back()), Ids(8, 1));
  Keep(kMine, "named", Ids(8, 2));
  EXPECT_THAT(found(), IsEmpty());
  std::vector<std::string> ids;
  for (uint64_t i = 0; i < 68; ++i) {
    ids.push_back(NewTurnId(digest));
    Keep(kMine, ids.back(), Ids(8, 10 + i));
    conversations_->WaitForStores();  // Their order in the store is this one.
  }
  for (const bool is_live : {true, false}) {
    const std::vector<Tokens> last = found();
    ASSERT_EQ(last.size(), 64u) << is_live;
    for (size_t i = 0; i < last.size(); ++i) EXPECT_EQ(last[i], Ids(8, 77 - i)) << is_live;
    Forget();
  }
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, conversations_->HandleOf(kMine));
  for (size_t i = 1; i < ids.size(); ++i) {  // Some by another process.
    ATTNDB_ASSERT_OK(i % 2 == 0 ? db.Drop(ids[i]) : conversations_->Drop(kMine, ids[i]));
  }
  EXPECT_THAT(found(), ::testing::ElementsAre(Ids(8, 10)));
  ATTNDB_ASSERT_OK(db.Drop(ids[0]));
  EXPECT_THAT(found(), IsEmpty());
  EXPECT_EQ(StateOf(kMine, ids[0]), TurnState::kUnknown);
}

TEST_F(ConversationsTest, ATurnIsFoundWhoseSessionIsGoneBeforeItIsStored) {
  Open();
  StopStores(kMine);
  const std::string digest = DigestsOf(Messages{{"user", "Hi"}})->back();
  Keep(kMine, NewTurnId(digest), Ids(8, 1));
  conversations_->DropLive();
  ATTNDB_ASSERT_OK_AND_ASSIGN(const std::vector<KeptText> turns,
                              conversations_->Candidates(kMine, digest));
  ASSERT_EQ(turns.size(), 1u);
  EXPECT_EQ(turns[0].tokens, Ids(8, 1));
}

}  // namespace
}  // namespace attndb::server
