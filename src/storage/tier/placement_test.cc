// Goal:   the nine ways in which a placement is subtly another policy (research of the paper's hit
//         rates: docs/tiers.md), one test each; transfers, ties, shared segments, short and long
//         queues; the limits hold whatever happens.
// Method: small scenes in which a mistake changes who lies where; then random calls against a
//         recount of all bytes, and the tiers that the moves lead to.
#include "storage/tier/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "common/random.h"

namespace attndb::tier {
namespace {

// A placement under a clock that each call moves on by a second, so that later calls are later.
class Scene {
 public:
  Scene(const std::string& policy, Capacity capacity) : placement(*ParsePolicy(policy), capacity) {}

  ItemId Id(uint64_t id) const { return ItemId{id}; }
  void Enqueue(uint64_t id) { placement.Enqueue(Id(id), now += 1); }
  Found Take(uint64_t id) { return placement.Take(Id(id), now += 1, &moves); }
  void Save(uint64_t id, uint64_t bytes) { placement.Save(Id(id), bytes, now += 1, &moves); }
  // One turn of a conversation, from its job's coming to the saving of its KV.
  void Serve(uint64_t id, uint64_t bytes) {
    Enqueue(id);
    Take(id);
    Save(id, bytes);
  }
  // Fetches, and waits until all has come.
  void Prefetch() {
    StartPrefetch();
    for (const Move& move : moves) placement.Arrived(move.item);
  }
  void StartPrefetch() {
    moves.clear();
    placement.Prefetch(now += 1, &moves);
  }
  Tier Of(uint64_t id) const { return placement.Find(Id(id))->tier; }

  Placement placement;
  Moves moves;
  double now = 0;
};

constexpr Tier kMemory = Tier::kMemory;
constexpr Tier kDisk = Tier::kDisk;
constexpr Tier kNone = Tier::kNone;

// Pitfall 1: LRU beyond a window of C / S_kv would keep the idle one, which was used last.
TEST(PlacementTest, EveryoneInTheQueueOutlivesEveryoneIdle) {
  Scene scene("attention_store(free=0)", {0, 300});
  for (uint64_t id = 1; id <= 3; ++id) scene.Serve(id, 100);
  for (uint64_t id = 11; id <= 30; ++id) scene.Enqueue(id);  // Far more jobs than C / S_kv = 3.
  scene.Enqueue(1);
  scene.Enqueue(2);
  scene.Take(11);
  scene.Save(11, 100);
  EXPECT_EQ(scene.Of(3), kNone);  // Used after 1 and 2, and idle.
  EXPECT_EQ(scene.Of(1), kDisk);
  EXPECT_EQ(scene.Of(2), kDisk);
  scene.Take(12);
  scene.Save(12, 100);
  EXPECT_EQ(scene.Of(11), kNone);
  EXPECT_EQ(scene.Of(12), kDisk);
}

TEST(PlacementTest, WhereAllAreQueuedTheTailGoes) {
  Scene scene("attention_store(free=0)", {0, 300});
  for (uint64_t id = 1; id <= 3; ++id) scene.Serve(id, 100);
  for (const uint64_t id : {2U, 3U, 1U}) scene.Enqueue(id);
  scene.Enqueue(4);
  scene.Take(4);
  scene.placement.Enqueue(scene.Id(5), scene.now);
  scene.Save(4, 100);  // Idle: worth less than all that is there.
  EXPECT_EQ(scene.Of(4), kNone);
  scene.Take(2);  // Its place is empty now.
  scene.Save(2, 200);
  EXPECT_EQ(scene.Of(2), kNone);  // Would need the place of 1, which is queued.
  EXPECT_EQ(scene.Of(1), kDisk);
}

// Pitfall 2.
TEST(PlacementTest, TheIdleGoOldestFirst) {
  Scene scene("attention_store(free=0)", {0, 300});
  for (uint64_t id = 1; id <= 4; ++id) scene.Serve(id, 100);
  EXPECT_EQ(scene.Of(1), kNone);
  EXPECT_EQ(scene.Of(2), kDisk);
}

// Pitfall 3.
TEST(PlacementTest, WhatMemoryEvictsCompetesWithWhatIsOnDisk) {
  Scene scene("attention_store(free=0)", {100, 100});
  scene.Serve(1, 100);
  scene.Serve(2, 100);
  ASSERT_EQ(scene.Of(1), kDisk);
  scene.Enqueue(1);
  scene.Serve(3, 100);  // Evicts 2, which is idle and worth less than 1.
  EXPECT_EQ(scene.Of(3), kMemory);
  EXPECT_EQ(scene.Of(2), kNone);
  EXPECT_EQ(scene.Of(1), kDisk);
}

// Pitfall 4: without a free part, saved data evicts what the queue needs next.
TEST(PlacementTest, WhatIsSavedComesIntoTheFreePartAndMayBeWhatGoes) {
  for (const bool has_free_part : {true, false}) {
    Scene scene(has_free_part ? "attention_store(free=0.5)" : "attention_store(free=0)",
                {has_free_part ? 200u : 100u, 1000});
    scene.Serve(1, 100);
    scene.Enqueue(1);
    scene.Serve(2, 100);  // Idle.
    EXPECT_EQ(scene.Of(1), has_free_part ? kMemory : kDisk);
    EXPECT_EQ(scene.Of(2), has_free_part ? kDisk : kMemory);
  }
}

// Pitfall 5: a pointer into the queue that only goes on would miss it.
TEST(PlacementTest, AQueuedItemThatWasDemotedIsFetchedAgain) {
  Scene scene("attention_store(free=0)", {200, 1000});
  scene.Serve(1, 100);
  scene.Serve(2, 100);
  for (const uint64_t id : {1U, 2U, 3U}) scene.Enqueue(id);
  scene.Prefetch();  // Nothing to do: the window has been looked at.
  EXPECT_TRUE(scene.moves.empty());
  scene.Take(3);
  scene.Save(3, 100);  // Evicts 2, the tail.
  ASSERT_EQ(scene.Of(2), kDisk);
  scene.Prefetch();  // 3 is idle and makes room.
  EXPECT_EQ(scene.Of(2), kMemory);
  EXPECT_EQ(scene.Of(3), kDisk);
}

// Pitfall 6.
TEST(PlacementTest, WhatIsInServiceTakesNoRoom) {
  Scene scene("attention_store", {1000, 1000});
  scene.Serve(1, 100);
  scene.Enqueue(1);
  const Found found = scene.Take(1);
  EXPECT_EQ(found.tier, kMemory);
  EXPECT_EQ(found.bytes, 100u);
  EXPECT_EQ(scene.Of(1), kNone);
  EXPECT_EQ(scene.placement.used_bytes(kMemory), 0u);
  scene.Save(1, 150);
  EXPECT_EQ(scene.placement.used_bytes(kMemory), 150u);
}

// Pitfall 7.
TEST(PlacementTest, WhatIsOnItsWayStaysAndIsAHitOnDiskUntilItHasCome) {
  Scene scene("attention_store(free=0)", {100, 1000});
  scene.Serve(1, 100);
  scene.Serve(2, 100);
  ASSERT_EQ(scene.Of(1), kDisk);
  scene.Enqueue(1);
  scene.StartPrefetch();
  ASSERT_EQ(scene.moves.back(), (Move{scene.Id(1), kDisk, kMemory, 100}));
  scene.Serve(3, 100);  // Memory is full of what can't go.
  EXPECT_EQ(scene.Of(1), kMemory);
  EXPECT_EQ(scene.Of(3), kDisk);
  const Found found = scene.Take(1);
  EXPECT_EQ(found.tier, kDisk);
  EXPECT_TRUE(found.in_transfer);
  scene.Save(1, 100);
  scene.Enqueue(1);
  EXPECT_FALSE(scene.Take(1).in_transfer);
}

TEST(PlacementTest, WhatHasArrivedIsAHitInMemory) {
  Scene scene("attention_store(free=0)", {100, 1000});
  scene.Serve(1, 100);
  scene.Serve(2, 100);
  scene.Enqueue(1);
  scene.Prefetch();
  EXPECT_EQ(scene.Take(1).tier, kMemory);
  scene.placement.Arrived(scene.Id(99));  // A late message, about nobody.
}

// Pitfall 8.
TEST(PlacementTest, OfEqualsTheLowerIdGoesFirst) {
  for (const char* policy : {"lru", "fifo", "attention_store"}) {
    Scene scene(policy, {0, 300});
    for (const uint64_t id : {3U, 1U, 2U}) {
      scene.placement.Enqueue(scene.Id(id), 0);
      scene.placement.Take(scene.Id(id), 0, &scene.moves);
      scene.placement.Save(scene.Id(id), 100, 0, &scene.moves);
    }
    scene.Serve(4, 100);
    EXPECT_EQ(scene.Of(1), kNone) << policy;
    EXPECT_EQ(scene.Of(2), kDisk) << policy;
    EXPECT_EQ(scene.Of(3), kDisk) << policy;
  }
}

TEST(PlacementTest, WhatIsWorthMoreComesInWhateverItsId) {
  Scene scene("lru", {0, 200});
  for (const uint64_t id : {5U, 6U, 1U}) scene.Serve(id, 100);
  EXPECT_EQ(scene.Of(5), kNone);
  EXPECT_EQ(scene.Of(1), kDisk);
  scene.Serve(7, 100);
  EXPECT_EQ(scene.Of(6), kNone);
  EXPECT_EQ(scene.Of(1), kDisk);
}

TEST(PlacementTest, OfEqualsTheLowerIdIsNotLetIn) {
  Scene scene("lru", {0, 200});
  for (const uint64_t id : {3U, 1U, 2U, 0U}) {  // 2 takes the place of 1, and 0 that of nobody.
    scene.placement.Enqueue(scene.Id(id), 0);
    scene.placement.Take(scene.Id(id), 0, &scene.moves);
    scene.placement.Save(scene.Id(id), 100, 0, &scene.moves);
  }
  for (uint64_t id = 0; id < 4; ++id) EXPECT_EQ(scene.Of(id), id < 2 ? kNone : kDisk) << id;
}

TEST(PlacementTest, TheWindowIsMeasuredInItemsThatAreStored) {
  Scene scene("attention_store(free=0)", {300, 1000});
  EXPECT_EQ(scene.placement.mean_item_bytes(), 0);
  scene.Serve(1, 100);
  scene.Serve(2, 300);
  scene.Serve(3, 0);  // Nothing to keep.
  EXPECT_EQ(scene.placement.mean_item_bytes(), 200);
  scene.Enqueue(2);
  scene.Take(2);
  EXPECT_EQ(scene.placement.mean_item_bytes(), 100);
}

// Pitfall 9.
TEST(PlacementTest, InMemoryOverADiskOnlyTimeCounts) {
  for (const uint64_t disk_bytes : {1000u, 0u}) {
    Scene scene("attndb(bytes=1,free=0)", {300, disk_bytes});
    scene.Serve(1, 200);
    scene.Serve(2, 100);
    for (uint64_t id = 11; id <= 16; ++id) scene.Enqueue(id);
    scene.Enqueue(1);  // Large, and needed a little earlier than 2, which is small.
    scene.Enqueue(2);
    for (const uint64_t id : {11U, 12U}) {  // The second tells how long a job takes.
      scene.Take(id);
      scene.Save(id, id == 11 ? 0 : 100);
    }
    const bool keeps_large = disk_bytes > 0;
    EXPECT_EQ(scene.Of(1), keeps_large ? kMemory : kNone);
    EXPECT_EQ(scene.Of(2) == kMemory, !keeps_large);
  }
}

// Returns which of two waiting conversations is evicted if there is only memory: 1, the large one,
// which is next, or 2, of 100 bytes, which comes after it. Jobs began before, `intervals` apart.
uint64_t WhoGoes(uint64_t large_bytes, const std::vector<double>& intervals) {
  Scene scene("attndb(bytes=1,free=0)", {large_bytes + 100, 0});
  scene.Serve(1, large_bytes);
  scene.Serve(2, 100);
  uint64_t job = 11;
  for (uint64_t i = 0; i <= intervals.size(); ++i) scene.Enqueue(job + i);
  scene.Enqueue(1);
  scene.Enqueue(2);
  scene.Take(job);
  for (const double interval : intervals) {
    scene.Save(job, 0);
    scene.now += interval - 2;
    scene.Take(++job);
  }
  scene.Save(job, 100);
  EXPECT_NE(scene.Of(1), scene.Of(2));
  return scene.Of(1) == kNone ? 1 : 2;
}

// 2 waits for both jobs of the queue, and is worth 1 / (1 + 2 s) / 100; 1 is worth 1 / its bytes.
TEST(PlacementTest, HowLongAJobTakesIsLearned) {
  EXPECT_EQ(WhoGoes(200, {2}), 2u);  // At first all at once: s = 2.
  EXPECT_EQ(WhoGoes(1000, {2}), 1u);
  EXPECT_EQ(WhoGoes(800, {2, 102}), 2u);  // Then slowly: s = 2 + 0.02 * 100.
  EXPECT_EQ(WhoGoes(1000, {2, 102}), 1u);
}

TEST(PlacementTest, TimeInWhichNobodyWaitedIsNoJobs) {
  Scene scene("attndb(bytes=1,free=0)", {300, 0});
  scene.Serve(1, 200);
  scene.Serve(2, 100);
  scene.now += 1000;
  for (uint64_t id = 1; id <= 3; ++id) scene.Enqueue(id);
  scene.Take(3);
  scene.Save(3, 100);
  EXPECT_EQ(scene.Of(1), kNone);  // Both are served at once, as far as is known.
  EXPECT_EQ(scene.Of(2), kMemory);
}

TEST(PlacementTest, OfTheIdleThoseGoWhoAreIdleForLongest) {
  Scene scene("attndb(free=0)", {0, 300});
  for (uint64_t id = 11; id <= 30; ++id) {  // They return after a second.
    for (int turn = 0; turn < 2; ++turn) scene.Serve(id, 0);
  }
  scene.Serve(1, 100);
  scene.now += 50;
  scene.Serve(2, 100);
  scene.Serve(3, 200);
  EXPECT_EQ(scene.Of(1), kNone);
  EXPECT_EQ(scene.Of(2), kDisk);
  EXPECT_EQ(scene.Of(3), kDisk);
}

TEST(PlacementTest, AQueueThatIsShorterThanTheWindowIsFetchedWhole) {
  Scene scene("attention_store(free=0)", {300, 1000});
  for (uint64_t id = 1; id <= 6; ++id) scene.Serve(id, 100);
  for (const uint64_t id : {2U, 1U}) scene.Enqueue(id);
  scene.Prefetch();
  EXPECT_EQ(scene.Of(1), kMemory);
  EXPECT_EQ(scene.Of(2), kMemory);
  EXPECT_EQ(scene.placement.num_items(kMemory), 3u);
}

TEST(PlacementTest, OfALongerQueueTheFirstAreFetched) {
  Scene scene("attention_store(free=0)", {300, 1000});
  for (uint64_t id = 1; id <= 8; ++id) scene.Serve(id, 100);
  for (uint64_t id = 1; id <= 8; ++id) scene.Enqueue(id);
  scene.Prefetch();
  for (uint64_t id = 1; id <= 8; ++id) EXPECT_EQ(scene.Of(id), id <= 3 ? kMemory : kDisk) << id;
}

TEST(PlacementTest, AFetchEvictsNothingThatIsNeededEarlier) {
  Scene scene("attention_store(free=0)", {300, 1000});
  for (uint64_t id = 1; id <= 4; ++id) scene.Serve(id, 50);
  scene.Serve(11, 100);
  scene.Serve(12, 200);  // They fill memory; the window is of 300 / 83 = 3 jobs.
  for (const uint64_t id : {11U, 12U, 1U}) scene.Enqueue(id);
  scene.Prefetch();
  EXPECT_TRUE(scene.moves.empty());
  EXPECT_EQ(scene.Of(1), kDisk);
  EXPECT_EQ(scene.Of(12), kMemory);
}

TEST(PlacementTest, LruAndFifoFetchNothing) {
  for (const char* policy : {"lru", "fifo"}) {
    Scene scene(policy, {100, 1000});
    scene.Serve(1, 80);
    scene.Serve(2, 80);
    scene.Enqueue(2);
    scene.Take(2);  // Memory is empty now.
    scene.Enqueue(1);
    scene.Prefetch();
    EXPECT_EQ(scene.Take(1).tier, kDisk) << policy;
  }
}

TEST(PlacementTest, FifoDoesNotRenewWhatReturns) {
  Scene scene("fifo", {0, 200});
  scene.Serve(2, 100);
  scene.Serve(1, 100);
  scene.Serve(2, 100);
  scene.Serve(3, 100);
  EXPECT_EQ(scene.Of(2), kNone);
  EXPECT_EQ(scene.Of(1), kDisk);
  scene.Serve(2, 100);  // Still the oldest.
  EXPECT_EQ(scene.Of(2), kNone);
}

TEST(PlacementTest, WhatIsTooLargeForMemoryGoesToDiskAndForBothNowhere) {
  Scene scene("lru", {100, 1000});
  scene.Serve(1, 50);
  scene.Serve(2, 500);
  scene.Serve(3, 5000);
  EXPECT_EQ(scene.Of(1), kMemory);  // Nothing was evicted in vain.
  EXPECT_EQ(scene.Of(2), kDisk);
  EXPECT_EQ(scene.Of(3), kNone);
}

TEST(PlacementTest, NoTierHoldsNothing) {
  for (const char* policy : {"none", "lru", "attention_store", "attndb"}) {
    Scene scene(policy, {0, 0});
    scene.Serve(1, 10);
    scene.Enqueue(1);
    scene.Prefetch();
    EXPECT_EQ(scene.Take(1).tier, kNone) << policy;
  }
  Scene scene("none", {1000, 1000});
  scene.Serve(1, 10);
  EXPECT_EQ(scene.Of(1), kNone);
}

TEST(PlacementTest, WhatIsPinnedStays) {
  Scene scene("lru(ttl=10,free=0)", {100, 100});
  scene.Serve(1, 100);
  scene.placement.SetPinned(scene.Id(1), true);
  scene.Serve(2, 100);
  scene.now += 100;
  scene.placement.Expire(scene.now, &scene.moves);
  EXPECT_EQ(scene.Of(1), kMemory);
  EXPECT_EQ(scene.Of(2), kNone);
  scene.placement.SetPinned(scene.Id(1), false);
  scene.placement.Expire(scene.now, &scene.moves);
  EXPECT_EQ(scene.Of(1), kNone);
}

TEST(PlacementTest, WhatWasNotUsedForTheTtlExpiresQueuedOrNot) {
  Scene scene("attention_store(ttl=60)", {100, 1000});
  scene.Serve(1, 50);  // Ends at 3.
  scene.Serve(2, 50);  // At 6.
  scene.Enqueue(1);
  scene.placement.Expire(63, &scene.moves);
  EXPECT_NE(scene.Of(1), kNone);
  scene.placement.Expire(63.5, &scene.moves);
  EXPECT_EQ(scene.Of(1), kNone);
  EXPECT_NE(scene.Of(2), kNone);
}

TEST(PlacementTest, ReturningConversationsOvertakeWithinTheirBound) {
  Scene scene("attndb(prefer=4)", {1000, 1000});
  scene.Serve(1, 10);  // 3 s.
  scene.Enqueue(11);   // 4.
  scene.Enqueue(12);   // 5.
  scene.Enqueue(13);   // 6.
  scene.Enqueue(1);    // 7, as if at 3: all are overtaken.
  EXPECT_EQ(scene.placement.Next(), scene.Id(1));
  scene.Take(1);
  scene.now = 9;
  scene.Save(1, 10);
  scene.now = 9.5;
  scene.Enqueue(1);  // At 10.5, as if at 6.5.
  for (const uint64_t id : {11U, 12U, 13U, 1U}) {
    EXPECT_EQ(scene.placement.Next(), scene.Id(id));
    scene.Take(id);
  }
}

TEST(PlacementTest, WhoDoesNotReturnIsCountedUntilTheyDo) {
  Scene scene("attndb", {1000, 1000});
  const auto chance = [&] { return scene.placement.forecast().Expect(1, 0).chance; };
  for (uint64_t id = 1; id <= 100; ++id) scene.Serve(id, 1);
  for (uint64_t id = 1; id <= 50; ++id) scene.Serve(id, 1);
  EXPECT_GT(chance(), 0.9);  // Nobody has been away for long.
  scene.now += 1e6;
  scene.Serve(101, 1);
  EXPECT_NEAR(chance(), 0.5, 0.02);
  for (uint64_t id = 51; id <= 100; ++id) scene.Enqueue(id);
  EXPECT_GT(chance(), 0.9);
}

TEST(PlacementTest, AFirstJobIsNoReturn) {
  Scene scene("attndb", {100, 100});
  for (uint64_t id = 1; id <= 2; ++id) scene.Serve(id, 10);
  EXPECT_EQ(scene.placement.forecast().Horizon(), kNever);
  scene.Enqueue(1);
  EXPECT_LT(scene.placement.forecast().Horizon(), 10);
}

TEST(PlacementTest, WhoIsIdleForTheHorizonIsNotGoneYetNorIsWhoWaits) {
  Scene scene("attndb", {100, 100});
  const auto serve_at = [&](uint64_t id, double now) {
    scene.placement.Enqueue(scene.Id(id), now);
    scene.placement.Take(scene.Id(id), now, &scene.moves);
    scene.placement.Save(scene.Id(id), 1, now, &scene.moves);
  };
  const auto chance = [&] { return scene.placement.forecast().Expect(1, 0).chance; };
  serve_at(1, -1);
  scene.placement.Enqueue(scene.Id(1), 0);  // The one return. The job waits from now on.
  serve_at(2, 0);
  const double horizon = scene.placement.forecast().Horizon();
  serve_at(3, horizon);
  EXPECT_NEAR(chance(), (1 + 1.4) / (1 + 2), 1e-9);
  serve_at(4, std::nextafter(horizon, kNever));
  EXPECT_NEAR(chance(), (1 + 1.4) / (1 + 1 + 2), 1e-9);  // 2 is gone.
}

TEST(PlacementTest, WhoCameBackIsNotGoneAnyMore) {
  Scene scene("attndb", {1000, 1000});
  for (int turn = 0; turn < 2; ++turn) {
    for (uint64_t id = 1; id <= 50; ++id) scene.Serve(id, 1);
  }
  for (uint64_t id = 101; id <= 150; ++id) scene.Serve(id, 1);
  scene.now += 1e6;
  scene.Serve(999, 1);  // All are gone, 50 of them after two turns.
  for (uint64_t id = 101; id <= 150; ++id) {
    scene.Serve(id, 1);
    scene.Enqueue(id);
  }
  EXPECT_NEAR(scene.placement.forecast().Expect(2, 0).chance, (50 + 1.4) / (50 + 50 + 2), 1e-3);
}

TEST(PlacementTest, AJobThatWaitsOrIsServedDoesNotWaitOnceMore) {
  Scene scene("lru", {100, 100});
  scene.Enqueue(1);
  EXPECT_DEATH(scene.Enqueue(1), "item.queued");
  scene.Take(1);
  EXPECT_DEATH(scene.Enqueue(1), "record.in_service");
}

TEST(PlacementTest, WhoIsForgottenIsInNoTier) {
  Scene scene("lru", {100, 100});
  for (uint64_t id = 1; id <= 3; ++id) scene.placement.SetPinned(scene.Id(id), false);
  EXPECT_EQ(scene.placement.num_items(kNone), 3u);
  scene.placement.Forget(scene.Id(2), 0, &scene.moves);
  scene.placement.Forget(scene.Id(99), 0, &scene.moves);  // Nobody.
  EXPECT_EQ(scene.placement.num_items(kNone), 2u);
  for (const uint64_t id : {3U, 1U}) scene.Serve(id, 10);
  EXPECT_EQ(scene.placement.num_items(kNone), 0u);
  EXPECT_EQ(scene.placement.num_items(kMemory), 2u);
}

// Shared segments.

TEST(PlacementTest, WhatIsSharedCountsOnceAndMovesWithTheLast) {
  Scene scene("lru(free=0)", {250, 1000});
  const SegmentId prefix{7};
  for (uint64_t id = 1; id <= 2; ++id) {
    scene.placement.Share(scene.Id(id), prefix, 100);
    scene.Serve(id, 50);
  }
  EXPECT_EQ(scene.placement.used_bytes(kMemory), 200u);
  scene.moves.clear();
  scene.Serve(3, 100);  // Evicts 1; the prefix stays for 2.
  ASSERT_EQ(scene.moves.front(), (Move{scene.Id(1), kMemory, kDisk, 50}));
  EXPECT_EQ(scene.placement.TierOf(prefix), kMemory);
  EXPECT_EQ(scene.placement.used_bytes(kDisk), 50u);
  scene.moves.clear();
  scene.Serve(4, 100);  // Evicts 2, and the prefix with it.
  ASSERT_EQ(scene.moves.front(), (Move{scene.Id(2), kMemory, kDisk, 150}));
  EXPECT_EQ(scene.placement.TierOf(prefix), kDisk);
  EXPECT_EQ(scene.placement.used_bytes(kDisk), 200u);
  scene.Enqueue(2);
  EXPECT_EQ(scene.Take(2).bytes, 150u);
  scene.placement.Forget(scene.Id(1), scene.now, &scene.moves);
  EXPECT_EQ(scene.placement.TierOf(prefix), kNone);
  EXPECT_EQ(scene.placement.used_bytes(kDisk), 0u);
  EXPECT_EQ(scene.placement.Find(scene.Id(1)), nullptr);
}

TEST(PlacementTest, WhatIsSharedAndComesToDiskFindsRoomThere) {
  Scene scene("lru(free=0)", {200, 120});
  const SegmentId prefix{7};
  for (uint64_t id = 1; id <= 2; ++id) {
    scene.placement.Share(scene.Id(id), prefix, 100);
    scene.Serve(id, 50);
  }
  scene.Serve(3, 50);  // Evicts 1: its own bytes alone fit on disk.
  ASSERT_EQ(scene.Of(1), kDisk);
  scene.Enqueue(2);
  scene.Take(2);  // The prefix is needed on disk now, where there is no room for 150 bytes.
  EXPECT_EQ(scene.Of(1), kNone);
  EXPECT_LE(scene.placement.used_bytes(kDisk), 120u);
}

// Like above: the prefix comes to disk, where 1 is, and takes more room than there is.
TEST(PlacementTest, WhatIsForgottenOrExpiresLeavesWhatItSharedOnDiskOnlyIfThatHasRoom) {
  const SegmentId prefix{7};
  for (const bool forgets : {true, false}) {
    Scene scene("fifo(ttl=10,free=0)", {200, 120});
    for (uint64_t id = 1; id <= 2; ++id) {
      scene.placement.Share(scene.Id(id), prefix, 100);
      scene.Serve(id, 50);
    }
    scene.Serve(1, 50);  // Until 9; the last turn of 2 ended at 6.
    scene.Serve(3, 50);
    ASSERT_EQ(scene.Of(1), kDisk);
    ASSERT_EQ(scene.placement.used_bytes(kDisk), 50u);
    if (forgets) {
      scene.placement.Forget(scene.Id(2), 17, &scene.moves);
    } else {
      scene.placement.Expire(17, &scene.moves);
      EXPECT_EQ(scene.Of(2), kNone);
    }
    EXPECT_EQ(scene.Of(1), kNone);
    EXPECT_EQ(scene.placement.used_bytes(kDisk), 0u);
    EXPECT_EQ(scene.Of(3), kMemory);
  }
}

// Random calls.

// Recounts the bytes of a tier from the items.
uint64_t Recount(const Placement& placement, uint64_t num_items, Tier tier) {
  uint64_t bytes = 0;
  for (uint64_t id = 0; id < num_items; ++id) {
    const Item* item = placement.Find(ItemId{id});
    if (item != nullptr && item->tier == tier) bytes += item->bytes;
  }
  for (const uint64_t segment : {0U, 1U}) {
    if (placement.TierOf(SegmentId{segment}) == tier) bytes += 40;
  }
  return bytes;
}

void CallAtRandom(const std::string& policy, uint64_t seed) {
  constexpr uint64_t kItems = 30;
  constexpr Capacity kCapacity = {500, 900};
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  Placement placement(*ParsePolicy(policy), kCapacity);
  std::map<ItemId, Tier> moved;  // The place of each item after the moves.
  Moves moves;
  double now = 0;
  for (uint64_t id = 0; id < kItems; ++id) {
    if (id % 3 != 2) placement.Share(ItemId{id}, SegmentId{id % 3}, 40);
  }
  for (int step = 0; step < 1000; ++step) {
    now += random.NextDouble() * 10;
    const ItemId id{random.Uniform(kItems)};
    const Item* const item = placement.Find(id);
    switch (random.Uniform(4)) {
      case 0:
        if (item == nullptr || !item->queued) placement.Enqueue(id, now);
        break;
      case 1:
        if (const std::optional<ItemId> next = placement.Next()) {
          placement.Take(*next, now, &moves);
          moved[*next] = kNone;
          placement.Save(*next, random.Uniform(150), now, &moves);
        }
        break;
      case 2:
        placement.Prefetch(now, &moves);
        break;
      case 3:
        placement.Expire(now, &moves);
        placement.Arrived(id);
        break;
    }
    for (const Move& move : moves) {
      ASSERT_EQ(moved[move.item], move.from);
      moved[move.item] = move.to;
    }
    moves.clear();
    for (uint64_t i = 0; i < kItems; ++i) {
      const Item* const each = placement.Find(ItemId{i});
      ASSERT_EQ(moved[ItemId{i}], each == nullptr ? kNone : each->tier) << i << " at " << step;
    }
    for (const Tier tier : {kMemory, kDisk}) {
      ASSERT_EQ(placement.used_bytes(tier), Recount(placement, kItems, tier)) << step;
    }
    ASSERT_LE(placement.used_bytes(kMemory), kCapacity.memory_bytes);
    ASSERT_LE(placement.used_bytes(kDisk), kCapacity.disk_bytes);
  }
}

class RandomPlacementTest : public ::testing::TestWithParam<const char*> {};

TEST_P(RandomPlacementTest, LimitsHoldAndMovesLeadToTheTiers) {
  const auto first = static_cast<uint64_t>(::testing::UnitTest::GetInstance()->random_seed());
  for (uint64_t i = 0; i < 50 && !HasFatalFailure(); ++i) CallAtRandom(GetParam(), first + i);
}

INSTANTIATE_TEST_SUITE_P(Policies, RandomPlacementTest,
                         ::testing::Values("lru", "fifo(ttl=200)", "attention_store",
                                           "attention_store(free=0,ttl=100)", "attndb",
                                           "attndb(bytes=1,prefer=30,cut=0)", "belady"));

}  // namespace
}  // namespace attndb::tier
