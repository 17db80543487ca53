// Goal:   merges run in the background of Stores and sessions. While a merge is stopped before its
//         publication, Stores of two tenants and 100 decode steps finish. A session moves to the
//         merged segment at once if no call is using it, otherwise in its next step, but not before
//         the merged segment has the run's derived objects. Answers stay right in every step, and
//         the files of merged segments are removed.
// Method: a file system whose next operation, a merge's, waits. Answers are compared with attention
//         in float64.
#include "api/stopped_db_test_util.h"

namespace attndb {
namespace {

using test::Concat;
using test::Event;
using test::Tokens;
using test::ToyModel;

class BackgroundMergeTest : public test::StoppedDBFixture {
 protected:
  BackgroundMergeTest() : StoppedDBFixture({.measure_machine = false}) {}

  derived::Lanes* lanes() { return internal::DbAccess::database(*db_)->store()->background(); }
  // Counts those of all segments.
  size_t NumCompanions(std::string_view context) {
    size_t count = 0;
    const Result<ContextInfo> info = db_->Describe(context);
    for (const SegmentInfo& segment : info->segments) count += segment.companions.size();
    return count;
  }
  // Stores 900 tokens as "a", and then 900 more; their merge waits for the event.
  void StoreTwice(Session* session, Tokens* all, Event* of_merges) {
    Append(session, all, 900, 1);
    ATTNDB_ASSERT_OK(db_->Store(*session, *all, {.name = "a", .replace = true}));
    ATTNDB_ASSERT_OK(db_->WaitForBackground());
    Append(session, all, 900, 2);
    test::StopLane(*db_, store::kMergeLane, of_merges);
    ATTNDB_ASSERT_OK(db_->Store(*session, *all, {.name = "a", .replace = true}));
  }
};

TEST_F(BackgroundMergeTest, AStoppedMergeDelaysNobody) {
  Session session = NewSession();
  Tokens all;
  Append(&session, &all, 600, 1);
  ATTNDB_ASSERT_OK(db_->Store(session, all, {.name = "a", .replace = true}));
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  Append(&session, &all, 600, 2);
  Event of_lane, stuck;
  test::StopLane(*db_, store::kMergeLane, &of_lane);
  ATTNDB_ASSERT_OK(db_->Store(session, all, {.name = "a", .replace = true}));
  // Whatever else the Store left to do ends first, so that the next operation is the merge's.
  for (size_t lane = 0; lane < store::kMergeLane; ++lane) {
    Event ended;
    lanes()->Add(lane, {.run = [&](derived::Lanes::Control*) {
                   ended.Set();
                   return Status::Ok();
                 }});
    ended.Await();
  }
  files_.SetPlan({.fail_at = 1, .waits_for = &release_, .waiting = &stuck});
  of_lane.Set();
  stuck.Await();
  EXPECT_EQ(SegmentTokens("a"), (std::vector<uint64_t>{600, 600}));

  for (const char* tenant : {"default", "other"}) {
    const DB db = *db_->ForTenant(tenant);
    SessionStart start = *db.CreateSession(model_.spec(), Tokens{1}, {.reuse = false});
    const Tokens tokens = ToyModel::Tokens(50, 20);
    ATTNDB_ASSERT_OK(AppendTokens(&start.session, tokens, nullptr));
    ATTNDB_ASSERT_OK(db.Store(start.session, tokens, {.name = "b"}));
  }
  for (uint64_t step = 0; step < 100; ++step) {
    Append(&session, &all, 1, 100 + step);
    (void)Probe(&session);
  }
  ExpectOracle(&session, all);
  EXPECT_EQ(SegmentTokens("a"), (std::vector<uint64_t>{600, 600})) << "it is stopped yet";
  release_.Set();
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  EXPECT_EQ(SegmentTokens("a"), (std::vector<uint64_t>{1200}));
  Append(&session, &all, 1, 300);
  ExpectOracle(&session, all);
  ATTNDB_ASSERT_OK(db_->Store(session, all, {.name = "c"}));
  EXPECT_EQ(SegmentTokens("c").front(), 1200u);
  EXPECT_EQ(db_->Describe("c")->segments[0].segment_id, db_->Describe("a")->segments[0].segment_id);
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  EXPECT_TRUE(db_->Verify()->ok());
}

// The lanes that build are stopped: the merged segment lacks planes that its run has.
TEST_F(BackgroundMergeTest, ASessionWaitsForWhatTheRunHad) {
  Session session = NewSession("topk(k=30,bits=8,sink=4,window=16)");
  Tokens all;
  Event of_merges;
  StoreTwice(&session, &all, &of_merges);
  ASSERT_TRUE(test::Eventually([&] { return NumCompanions("a") == 2; }));
  for (size_t lane = 0; lane < derived::kNumBuildLanes; ++lane)
    test::StopLane(*db_, lane, &release_);
  of_merges.Set();
  ASSERT_TRUE(test::Eventually([&] { return SegmentTokens("a") == std::vector<uint64_t>{1800}; }));
  Append(&session, &all, 1, 3);
  (void)Probe(&session);
  EXPECT_EQ(NumCompanions("a"), 0u);
  EXPECT_EQ(session.Explain(1)->notes, "") << "no key planes: it took the merged segment";
  EXPECT_GT(db_->Stats()->num_segments, 1u);
  release_.Set();
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  Append(&session, &all, 1, 4);
  (void)Probe(&session);
  EXPECT_EQ(session.Explain(1)->notes, "");
  EXPECT_EQ(NumCompanions("a"), 1u);
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  EXPECT_EQ(db_->Stats()->num_segments, 1u) << "files of the run are gone with their last reader";
}

// Nothing is called on the session after its Store.
TEST_F(BackgroundMergeTest, AnIdleSessionMovesAtOnce) {
  Session session = NewSession("topk(k=30,bits=8,sink=4,window=16)");
  Tokens all;
  for (uint64_t turn = 1; turn <= 2; ++turn) {
    Append(&session, &all, 900, turn);
    ATTNDB_ASSERT_OK(db_->Store(session, all, {.name = "a", .replace = true}));
    ATTNDB_ASSERT_OK(db_->WaitForBackground());
  }
  EXPECT_EQ(SegmentTokens("a"), std::vector<uint64_t>{1800});
  ASSERT_TRUE(test::Eventually([&] { return db_->Stats()->num_segments == 1; }))
      << "it holds the run yet";
  EXPECT_EQ(session.Explain().num_segments, 1u);
  Append(&session, &all, 1, 3);
  (void)Probe(&session);
  EXPECT_EQ(session.Explain(1)->notes, "") << "the merged segment lacks what the run had";
}

// Between the layers of a step nothing moves.
TEST_F(BackgroundMergeTest, AStepUnderWayStaysWhereItIs) {
  Session session = NewSession();
  Tokens all;
  Event of_merges;
  StoreTwice(&session, &all, &of_merges);
  const Tokens more = {5};
  ATTNDB_ASSERT_OK(AppendLayer(&session, 0, more, all.size()));
  of_merges.Set();
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  EXPECT_EQ(SegmentTokens("a"), std::vector<uint64_t>{1800});
  EXPECT_EQ(session.Explain().num_segments, 2u);
  for (LayerId layer = 1; layer < model_.spec().num_layers(); ++layer) {
    ATTNDB_ASSERT_OK(AppendLayer(&session, layer, more, all.size()));
  }
  all = Concat(all, more);
  ExpectOracle(&session, all);
  Append(&session, &all, 1, 3);
  EXPECT_EQ(session.Explain().num_segments, 1u);
  ExpectOracle(&session, all);
}

// A chat of many turns, whose merges overtake its steps now and then.
TEST_F(BackgroundMergeTest, AChatStaysRightAndShort) {
  Session session = NewSession();
  Tokens all;
  for (uint64_t turn = 0; turn < 60; ++turn) {
    Append(&session, &all, 15 + turn * 7 % 11, turn + 1);
    ExpectOracle(&session, all);
    ATTNDB_ASSERT_OK(db_->Store(session, all, {.name = "chat", .replace = true}));
    if (turn % 3 != 0) continue;
    ATTNDB_ASSERT_OK(db_->WaitForBackground());
  }
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  EXPECT_LE(SegmentTokens("chat").size(), 12u);
  Append(&session, &all, 1, 99);
  ExpectOracle(&session, all);
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  EXPECT_EQ(db_->Stats()->num_segments, SegmentTokens("chat").size());
  EXPECT_TRUE(db_->Verify()->ok());
  const Session other = std::move(session);
  ExpectAnswers(Concat(Tokens(all.begin(), all.end() - 1), Tokens{5}), all.size() - 1);
}

// The merge lane has a low priority: on a busy machine several Stores pass before the next merge.
TEST_F(BackgroundMergeTest, AChatStaysShortWhoseMergesComeLate) {
  Session session = NewSession();
  Tokens all;
  for (uint64_t turn = 0; turn < 60;) {
    Event of_merges;
    test::StopLane(*db_, store::kMergeLane, &of_merges);
    for (const uint64_t next = turn + 3; turn < next; ++turn) {
      Append(&session, &all, 15 + turn * 7 % 11, turn + 1);
      ATTNDB_ASSERT_OK(db_->Store(session, all, {.name = "chat", .replace = true}));
    }
    of_merges.Set();
    ATTNDB_ASSERT_OK(db_->WaitForBackground());
  }
  EXPECT_LE(SegmentTokens("chat").size(), 12u);
  ExpectOracle(&session, all);
}

}  // namespace
}  // namespace attndb
