// Goal:   a Store runs in the background of its session. The session's tokens become durable,
//         whatever the session does meanwhile. It moves to the stored context in its next step.
//         Tenants' seals do not wait for each other, and a merge in between loses no sharing.
// Method: a file system whose next operation, the Store's, waits until the test has done what is to
//         be done meanwhile. Answers are compared with attention in float64.
#include <chrono>
#include <thread>

#include "api/stopped_db_test_util.h"

namespace attndb {
namespace {

using test::Concat;
using test::Event;
using test::Tokens;
using test::ToyModel;

class StoreSessionTest : public test::StoppedDBFixture {
 protected:
  explicit StoreSessionTest(const DBOptions& options = {.background_builds = false})
      : StoppedDBFixture(options) {}

  // The next operation of the store's files waits for release_, and says that it does by stuck_.
  void StopNextWrite() {
    files_.SetPlan({.fail_at = 1, .waits_for = &release_, .waiting = &stuck_});
  }
  // A Store of all that the session holds, which is stuck in its first write.
  PendingStore StuckStore(Session* session, const Tokens& tokens, const StoreOptions& options) {
    StopNextWrite();
    Result<PendingStore> pending = db_->StoreAsync(*session, tokens, options);
    ATTNDB_EXPECT_OK(pending.status());
    stuck_.Await();
    EXPECT_FALSE(pending->done());
    return *pending;
  }
  Event stuck_;
};

TEST_F(StoreSessionTest, TheSessionGoesOnMeanwhile) {
  Session session = NewSession();
  Tokens all;
  Append(&session, &all, 300, 1);
  const Tokens stored = all;
  const PendingStore pending = StuckStore(&session, all, {.name = "a"});
  for (int step = 0; step < 20; ++step) {
    Append(&session, &all, 1, 100 + static_cast<uint64_t>(step));
    ExpectOracle(&session, all);
  }
  Session fork = *session.Fork();
  Tokens of_fork = all;
  Append(&fork, &of_fork, 5, 300);
  EXPECT_EQ(session.context_id(), ContextId::kNone);
  release_.Set();
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextId id, pending.Wait());
  EXPECT_TRUE(pending.done());
  EXPECT_EQ(db_->Describe("a")->id, id);
  EXPECT_EQ(*db_->Tokens("a"), stored);
  EXPECT_EQ(session.context_id(), ContextId::kNone) << "in its next step";
  ExpectOracle(&session, all);
  Append(&session, &all, 1, 200);
  EXPECT_EQ(session.context_id(), id);
  ExpectOracle(&session, all);
  ExpectOracle(&fork, of_fork);
  // Durable tokens are not written again.
  ATTNDB_ASSERT_OK(db_->Store(session, all, {.name = "b"}));
  EXPECT_EQ(SegmentTokens("b"), (std::vector<uint64_t>{300, 21}));
  EXPECT_EQ(db_->Describe("b")->segments[0].segment_id, db_->Describe("a")->segments[0].segment_id);
  ExpectAnswers(Concat(all, Tokens{5}), all.size());
}

TEST_F(StoreSessionTest, TheTailLeavesMemoryWhenItIsDurable) {
  Session session = NewSession();
  Tokens all;
  Append(&session, &all, 3000, 1);
  const uint64_t before = session.Explain().memory_bytes;
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PendingStore pending, db_->StoreAsync(session, all, {}));
  ATTNDB_ASSERT_OK(pending.Wait().status());
  Append(&session, &all, 1, 2);
  EXPECT_LT(session.Explain().memory_bytes, before / 10);
  ExpectOracle(&session, all);
}

TEST_F(StoreSessionTest, WhatIsCroppedMeanwhileIsStoredAllTheSame) {
  Session session = NewSession();
  Tokens all;
  Append(&session, &all, 300, 1);
  const Tokens stored = all;
  const PendingStore pending = StuckStore(&session, all, {.name = "a"});
  ATTNDB_ASSERT_OK(session.Crop(120));
  all.resize(120);
  Append(&session, &all, 30, 7);
  release_.Set();
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextId id, pending.Wait());
  EXPECT_EQ(*db_->Tokens("a"), stored);
  Append(&session, &all, 1, 8);
  EXPECT_EQ(session.context_id(), id);
  ExpectOracle(&session, all);
  ATTNDB_ASSERT_OK(db_->Store(session, all, {.name = "b"}));
  EXPECT_EQ(SegmentTokens("b"), (std::vector<uint64_t>{120, 31}));
  ExpectAnswers(Concat(stored, Tokens{5}), stored.size());
}

// The session keeps its initial chain, which holds all of its tokens.
TEST_F(StoreSessionTest, ASessionThatIsCroppedIntoItsPrefixDoesNotMove) {
  const Tokens stored = StoreChain("base", std::vector<uint64_t>{300}, 1);
  Session session = Resume(stored, 50);
  const ContextId base = session.context_id();
  Tokens all = Concat(stored, ToyModel::Tokens(50, 9));
  const PendingStore pending = StuckStore(&session, all, {.name = "longer"});
  ATTNDB_ASSERT_OK(session.Crop(200));
  all.resize(200);
  release_.Set();
  ATTNDB_ASSERT_OK(pending.Wait().status());
  Append(&session, &all, 1, 3);
  EXPECT_EQ(session.context_id(), base);
  EXPECT_EQ(session.num_reused(), 200u);
  ExpectOracle(&session, all);
}

TEST_F(StoreSessionTest, AStoreThatEndsInsideAStepIsTakenAfterIt) {
  Session session = NewSession();
  Tokens all;
  Append(&session, &all, 300, 1);
  const PendingStore pending = StuckStore(&session, all, {.name = "a"});
  ATTNDB_ASSERT_OK(AppendLayer(&session, 0, Tokens{5}, 300));
  release_.Set();
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextId id, pending.Wait());
  EXPECT_THAT(db_->StoreAsync(session, all).status(),
              test::FailsWith(StatusCode::kFailedPrecondition, ::testing::HasSubstr("a step")));
  EXPECT_EQ(session.context_id(), ContextId::kNone) << "its layers would hold different chains";
  ATTNDB_ASSERT_OK(AppendLayer(&session, 1, Tokens{5}, 300));
  all.push_back(5);
  ExpectOracle(&session, all);
  Append(&session, &all, 1, 3);
  EXPECT_EQ(session.context_id(), id);
  ExpectOracle(&session, all);
}

TEST_F(StoreSessionTest, ASessionThatIsResetDoesNotMove) {
  Session session = NewSession();
  Tokens all;
  Append(&session, &all, 300, 1);
  const PendingStore pending = StuckStore(&session, all, {.name = "a"});
  session.Reset();
  Tokens other;
  Append(&session, &other, 40, 9);
  release_.Set();
  ATTNDB_ASSERT_OK(pending.Wait().status());
  Append(&session, &other, 1, 10);
  EXPECT_EQ(session.context_id(), ContextId::kNone);
  ExpectOracle(&session, other);
  ExpectAnswers(Concat(all, Tokens{5}), all.size());
}

TEST_F(StoreSessionTest, AStoreThatFailsLeavesTheTail) {
  Session session = NewSession();
  Tokens all;
  Append(&session, &all, 300, 1);
  files_.SetPlan({.fail_at = 1, .sticky = true, .removes_fail = false});
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PendingStore pending, db_->StoreAsync(session, all, {}));
  Append(&session, &all, 10, 2);
  EXPECT_THAT(pending.Wait(), test::FailsWith(StatusCode::kIoError, ::testing::HasSubstr("")));
  files_.SetPlan({});
  EXPECT_TRUE(db_->List()->empty());
  Append(&session, &all, 1, 3);
  EXPECT_EQ(session.context_id(), ContextId::kNone);
  ExpectOracle(&session, all);
  ATTNDB_ASSERT_OK(db_->Store(session, all, {.name = "a"}));
  EXPECT_EQ(SegmentTokens("a"), (std::vector<uint64_t>{311}));
}

TEST_F(StoreSessionTest, TheNextStoreWaitsForThisOneAndSharesItsSegment) {
  Session session = NewSession();
  Tokens all;
  Append(&session, &all, 300, 1);
  const PendingStore first = StuckStore(&session, all, {.name = "a"});
  Append(&session, &all, 30, 2);
  std::thread later([&] {
    stuck_.Await();
    release_.Set();
  });
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PendingStore second,
                              db_->StoreAsync(session, all, {.name = "b"}));
  ATTNDB_EXPECT_OK(first.Wait().status());
  ATTNDB_ASSERT_OK(second.Wait().status());
  later.join();
  EXPECT_EQ(SegmentTokens("b"), (std::vector<uint64_t>{300, 30}));
}

TEST_F(StoreSessionTest, WhatNeedsNoDiskIsRefusedAtOnce) {
  Session session = NewSession();
  Tokens all;
  Append(&session, &all, 30, 1);
  EXPECT_THAT(db_->StoreAsync(session, Tokens(29, 1)).status(),
              test::FailsWith(StatusCode::kInvalidArgument, ::testing::HasSubstr("29 token ids")));
  ATTNDB_ASSERT_OK(AppendLayer(&session, 0, Tokens{1}, 30));
  EXPECT_THAT(db_->StoreAsync(session, all).status(),
              test::FailsWith(StatusCode::kFailedPrecondition, ::testing::HasSubstr("a step")));
  const DB other = *db_->ForTenant("other");
  EXPECT_THAT(other.StoreAsync(session, all).status(),
              test::FailsWith(StatusCode::kInvalidArgument, ::testing::HasSubstr("tenant")));
}

TEST_F(StoreSessionTest, ClosingWaitsAndWhoHasTheResultMayKeepIt) {
  Tokens all;
  std::optional<PendingStore> pending;
  std::thread later;
  {
    Session session = NewSession();
    Append(&session, &all, 300, 1);
    pending = StuckStore(&session, all, {.name = "a"});
    later = std::thread([this] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      release_.Set();
    });
    db_.reset();
  }
  EXPECT_TRUE(pending->done());
  ATTNDB_EXPECT_OK(pending->Wait().status());
  later.join();
  OpenWithFiles();
  EXPECT_EQ(*db_->Tokens("a"), all);
  ExpectAnswers(Concat(all, Tokens{5}), all.size());
}

TEST_F(StoreSessionTest, AClosedSessionHoldsNoFiles) {
  for (const bool is_taken : {true, false}) {
    {
      Session session = NewSession();
      Tokens all;
      Append(&session, &all, 300, 1);
      ATTNDB_ASSERT_OK_AND_ASSIGN(const PendingStore pending,
                                  db_->StoreAsync(session, all, {.name = "a"}));
      ATTNDB_ASSERT_OK(pending.Wait().status());
      if (is_taken) Append(&session, &all, 1, 2);
      EXPECT_EQ(session.num_reused(), is_taken ? 300u : 0u);
      ATTNDB_ASSERT_OK(db_->Drop("a"));
    }
    // A session that took over stored segments releases its former ones in the background.
    ATTNDB_ASSERT_OK(db_->WaitForBackground());
    EXPECT_EQ(NumSegmentFiles(), 0u) << is_taken;
  }
}

TEST_F(StoreSessionTest, SealsOfTenantsDoNotWaitForEachOther) {
  Session session = NewSession();
  Tokens all;
  Append(&session, &all, 300, 1);
  const PendingStore pending = StuckStore(&session, all, {.name = "a"});
  const DB other = *db_->ForTenant("other");
  SessionStart start = *other.CreateSession(model_.spec(), Tokens{1}, {});
  const Tokens tokens = ToyModel::Tokens(100, 5);
  ATTNDB_ASSERT_OK(AppendTokens(&start.session, tokens, nullptr));
  ATTNDB_ASSERT_OK(other.Store(start.session, tokens, {.name = "b"}));
  EXPECT_FALSE(pending.done());
  ATTNDB_EXPECT_OK(other.Describe("b").status());
  release_.Set();
  ATTNDB_EXPECT_OK(pending.Wait().status());
}

TEST_F(StoreSessionTest, StoresOfOneNameTakeItInTheOrderOfTheCalls) {
  const auto session_of = [this](Tokens* all, uint64_t seed) {
    Session session = NewSession();
    Append(&session, all, 30, seed);
    return session;
  };
  Tokens first_tokens, second_tokens, other_tokens;
  Session first = session_of(&first_tokens, 1);
  Session second = session_of(&second_tokens, 2);
  Session other = session_of(&other_tokens, 3);
  const StoreOptions named = {.name = "a", .replace = true};
  const PendingStore stuck = StuckStore(&first, first_tokens, named);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PendingStore later,
                              db_->StoreAsync(second, second_tokens, named));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PendingStore beside,
                              db_->StoreAsync(other, other_tokens, {.name = "b"}));
  ATTNDB_EXPECT_OK(beside.Wait().status());  // Another name waits for nobody.
  EXPECT_FALSE(later.done());
  release_.Set();
  ATTNDB_EXPECT_OK(later.Wait().status());
  ATTNDB_EXPECT_OK(stuck.Wait().status());
  EXPECT_EQ(*db_->Tokens("a"), second_tokens);
}

// Has room for the K and V of some 6,000 tokens, of 576 bytes each.
class TightStoreSessionTest : public StoreSessionTest {
 protected:
  TightStoreSessionTest()
      : StoreSessionTest({.host_memory_bytes = 3'600'000, .background_builds = false}) {}
};

// Newer tokens would have to be copied, and there is no room for that.
TEST_F(TightStoreSessionTest, WithoutMemoryToMoveASessionKeepsAllThatItHas) {
  Session session = NewSession();
  Tokens all;
  Append(&session, &all, 2500, 1);
  const PendingStore pending = StuckStore(&session, all, {.name = "a"});
  Append(&session, &all, 2500, 2);
  release_.Set();
  ATTNDB_ASSERT_OK(pending.Wait().status());
  Append(&session, &all, 1, 3);
  EXPECT_EQ(session.num_reused(), 0u);
  EXPECT_EQ(session.context_id(), ContextId::kNone);
  ExpectOracle(&session, all);
}

// Two sessions continue one chain. The first one's Store merges its end; the second one's context
// then shares the merged segment.
TEST_F(StoreSessionTest, AMergeInBetweenLosesNoSharing) {
  const Tokens base = StoreChain("base", std::vector<uint64_t>{600, 300, 100}, 1);
  Session second = Resume(base, 50);
  CompactOptions compact;
  compact.segment_tokens = 4096;
  ATTNDB_ASSERT_OK(db_->Compact(compact));
  ASSERT_EQ(SegmentTokens("base"), (std::vector<uint64_t>{1000}));
  const Tokens all = Concat(base, ToyModel::Tokens(50, 9));
  ATTNDB_ASSERT_OK(db_->Store(second, all, {.name = "longer"}));
  EXPECT_EQ(SegmentTokens("longer"), (std::vector<uint64_t>{1000, 50}));
  EXPECT_EQ(db_->Describe("longer")->segments[0].segment_id,
            db_->Describe("base")->segments[0].segment_id);
  ExpectOracle(&second, all);
  // The old segments have no reader once the background has released the session's.
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  EXPECT_EQ(NumSegmentFiles(), 2u * 2);
}

TEST_F(StoreSessionTest, QueriesAreThoseOfThatMoment) {
  Tokens all;
  const auto prompt = ToyModel::Tokens(900, 4);
  SessionStart start = Start(prompt, {.reuse = false});
  ATTNDB_ASSERT_OK(model_.Step(&start.session, prompt));
  all = prompt;
  const PendingStore pending = StuckStore(&start.session, all, {.name = "behind"});
  const Tokens more = ToyModel::Tokens(400, 5);
  ATTNDB_ASSERT_OK(model_.Step(&start.session, more));
  release_.Set();
  ATTNDB_ASSERT_OK(pending.Wait().status());
  SessionStart plain = Start(prompt, {.reuse = false});
  ATTNDB_ASSERT_OK(model_.Step(&plain.session, prompt));
  ATTNDB_ASSERT_OK(db_->Store(plain.session, prompt, {.name = "at_once"}));
  EXPECT_GT(db_->Describe("behind")->query_sample_bytes, 0u);
  EXPECT_EQ(db_->Describe("behind")->query_sample_bytes,
            db_->Describe("at_once")->query_sample_bytes);
}

}  // namespace
}  // namespace attndb
