// Goal:   each policy prefers the items that its definition names, and its text names the policy.
// Method: pure functions over made-up items.
#include "storage/tier/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace attndb::tier {
namespace {

using ::testing::HasSubstr;

Policy Parsed(const std::string& text) {
  const Result<Policy> policy = ParsePolicy(text);
  EXPECT_TRUE(policy.ok()) << policy.status();
  return policy.ok() ? *policy : Policy();
}

Item Idle(double last_use) {
  Item item;
  item.last_use = last_use;
  item.first_save = last_use;
  item.num_turns = 1;
  item.bytes = 100;
  return item;
}

Item Queued(double place) {
  Item item = Idle(0);
  item.queued = true;
  item.place = place;
  return item;
}

// A queue of 11 jobs with places 0 to 100, 1 s each.
Outlook TenSecondsOfQueue() {
  Outlook outlook;
  outlook.now = 100;
  outlook.tail_place = 100;
  outlook.num_queued = 10;
  outlook.seconds_per_job = 1;
  return outlook;
}

TEST(PolicyTest, TextsAreReadAndWritten) {
  for (const char* text :
       {"none", "lru", "fifo(ttl=3600)", "attention_store", "attention_store(cut=1,free=0.03)",
        "attndb", "attndb(cut=0,bytes=0.5,prefer=600)", "belady(bytes=1)"}) {
    EXPECT_EQ(PolicyText(Parsed(text)), text);
  }
  EXPECT_EQ(PolicyText(Parsed("attndb(cut=1,bytes=0)")), "attndb");
  EXPECT_TRUE(Parsed("attndb").cut_at_save);
  EXPECT_FALSE(Parsed("attention_store").cut_at_save);
}

TEST(PolicyTest, AMistakeIsNamed) {
  const struct {
    const char* text;
    const char* message;
  } kCases[] = {
      {"", "expected none, lru"},
      {"lfu", "'lfu': expected none, lru, fifo, attention_store, attndb or belady"},
      {"lru(", "expected ')'"},
      {"lru(ttl)", "expected cut=, bytes=, prefer=, ttl= or free=, found 'ttl'"},
      {"lru(tl=1)", "found 'tl=1'"},
      {"lru(ttl=0)", "ttl is a number in [1, 1e+09], found '0'"},
      {"lru(ttl=nan)", "found 'nan'"},
      {"attndb(cut=0.5)", "cut is a number in [0, 1], found '0.5'"},
      {"attndb(bytes=1x)", "found '1x'"},
      {"attndb(free=1)", "free is a number in [0, 0.9], found '1'"},
  };
  for (const auto& [text, message] : kCases) {
    const Result<Policy> policy = ParsePolicy(text);
    ASSERT_FALSE(policy.ok()) << text;
    EXPECT_EQ(policy.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(policy.status().message(), HasSubstr(message));
  }
}

TEST(PolicyTest, LruGoesByTheLastUseAndFifoByTheFirstSave) {
  Item old_again = Idle(50);  // First saved at 1.
  old_again.first_save = 1;
  const Item young = Idle(20);
  const Outlook outlook;
  EXPECT_LT(Worth(Parsed("lru"), young, outlook), Worth(Parsed("lru"), old_again, outlook));
  EXPECT_LT(Worth(Parsed("fifo"), old_again, outlook), Worth(Parsed("fifo"), young, outlook));
}

TEST(PolicyTest, AttentionStoreEvictsTheIdleThenTheQueueFromItsTail) {
  const Policy policy = Parsed("attention_store");
  const Outlook outlook = TenSecondsOfQueue();
  const Item items[] = {Idle(10), Idle(99), Queued(100), Queued(50), Queued(0)};
  for (size_t i = 1; i < std::size(items); ++i) {
    EXPECT_LT(Worth(policy, items[i - 1], outlook), Worth(policy, items[i], outlook)) << i;
  }
}

TEST(PolicyTest, AttndbWeighsChanceAgainstTime) {
  ReturnForecast forecast;
  for (int i = 0; i < 1000; ++i) {
    forecast.AddReturn(1, 5.0, false);  // A conversation with one turn returns.
    forecast.AddGone(2);                // One with two turns does not.
  }
  Outlook outlook = TenSecondsOfQueue();
  outlook.forecast = &forecast;
  const Policy policy = Parsed("attndb");
  Item second = Idle(99);
  second.num_turns = 2;
  EXPECT_LT(Worth(policy, second, outlook), Worth(policy, Idle(99), outlook));
  EXPECT_LT(Worth(policy, Idle(99), outlook), Worth(policy, Queued(100), outlook));
  EXPECT_LT(Worth(policy, Queued(90), outlook), Worth(policy, Queued(10), outlook));
}

TEST(PolicyTest, SizesCountWhereTheyAreAskedForAndNotInMemory) {
  ReturnForecast forecast;
  Outlook outlook = TenSecondsOfQueue();
  outlook.forecast = &forecast;
  outlook.sizes_count = true;
  Item large = Queued(10);
  large.bytes = 1000;
  const Item small = Queued(50);
  EXPECT_LT(Worth(Parsed("attndb(bytes=1)"), large, outlook),
            Worth(Parsed("attndb(bytes=1)"), small, outlook));
  EXPECT_LT(Worth(Parsed("attndb"), small, outlook), Worth(Parsed("attndb"), large, outlook));
  outlook.sizes_count = false;
  EXPECT_LT(Worth(Parsed("attndb(bytes=1)"), small, outlook),
            Worth(Parsed("attndb(bytes=1)"), large, outlook));
}

TEST(PolicyTest, BeladyKnowsWhoComesNext) {
  const Policy policy = Parsed("belady");
  const Outlook outlook = TenSecondsOfQueue();
  Item never = Idle(100);
  Item later = Idle(1);
  later.next_use = 500;
  Item soon = Idle(1);
  soon.next_use = 101;
  EXPECT_LT(Worth(policy, never, outlook), Worth(policy, later, outlook));
  EXPECT_LT(Worth(policy, later, outlook), Worth(policy, soon, outlook));
  EXPECT_LT(Worth(policy, soon, outlook), Worth(policy, Queued(100), outlook));
}

TEST(PolicyTest, TheQueueTellsHowLongAJobWaits) {
  const Outlook outlook = TenSecondsOfQueue();
  EXPECT_EQ(QueueWait(outlook, 0), 0);
  EXPECT_EQ(QueueWait(outlook, 50), 5);
  EXPECT_EQ(QueueWait(outlook, 1000), 10);
  EXPECT_EQ(QueueWait(outlook, -5), 0);
  EXPECT_EQ(QueueWait(Outlook(), 5), 0);
  Outlook one;  // A queue of one job.
  one.num_queued = 1;
  one.seconds_per_job = 3;
  EXPECT_EQ(QueueWait(one, 0), 0);
  EXPECT_EQ(QueueWait(one, 1), 3);
}

TEST(PolicyTest, APreferenceIsBounded) {
  const Policy policy = Parsed("attndb(prefer=60)");
  EXPECT_LT(PlaceOf(policy, true, 100), PlaceOf(policy, false, 41));
  EXPECT_GT(PlaceOf(policy, true, 100), PlaceOf(policy, false, 39));
  EXPECT_EQ(PlaceOf(Parsed("attndb"), true, 100), PlaceOf(policy, false, 100));
}

TEST(PolicyTest, ThePrefetchWindowIsWhatMemoryHolds) {
  EXPECT_EQ(PrefetchWindow(Parsed("attention_store"), 1000, 100), 9u);  // A tenth is kept free.
  EXPECT_EQ(PrefetchWindow(Parsed("attention_store(free=0)"), 1000, 100), 10u);
  EXPECT_EQ(PrefetchWindow(Parsed("attention_store"), 1000, 0), 0u);
  EXPECT_EQ(PrefetchWindow(Parsed("attention_store"), 50, 100), 0u);
  EXPECT_EQ(PrefetchWindow(Parsed("lru"), 1000, 100), 0u);
}

TEST(PolicyTest, AFullConversationIsSavedWithoutWhatItsNextTurnDrops) {
  const Policy cuts = Parsed("attndb");
  EXPECT_EQ(SavedTokens(cuts, 4095, 4096), 4095u);
  EXPECT_EQ(SavedTokens(cuts, 4096, 4096), 2048u);
  EXPECT_EQ(SavedTokens(cuts, 7, 7), 4u);  // The next turn keeps ceil(7 / 2).
  EXPECT_EQ(SavedTokens(Parsed("attention_store"), 4096, 4096), 4096u);
}

TEST(PolicyTest, AnIdleConversationIsWorthItsChanceOverTheTimeUntilItIsServed) {
  ReturnForecast forecast;
  for (int i = 0; i < 100; ++i) forecast.AddReturn(1, 5.0, false);
  Outlook outlook = TenSecondsOfQueue();
  outlook.forecast = &forecast;
  const Return expected = forecast.Expect(1, 1.0);
  ASSERT_DOUBLE_EQ(expected.seconds, 4.0);
  EXPECT_DOUBLE_EQ(Worth(Parsed("attndb"), Idle(99), outlook).value,
                   expected.chance / (1 + 4 + 10));
}

TEST(PolicyTest, BytesCountByTheirPower) {
  Outlook outlook = TenSecondsOfQueue();
  outlook.sizes_count = true;
  Item item = Queued(50);
  item.bytes = 400;
  const auto worth = [&](const char* policy) { return Worth(Parsed(policy), item, outlook).value; };
  EXPECT_DOUBLE_EQ(worth("attndb"), 1.0 / 6);  // It waits for 5 s.
  EXPECT_DOUBLE_EQ(worth("attndb(bytes=0.5)"), 1.0 / 6 / 20);
  EXPECT_DOUBLE_EQ(worth("attndb(bytes=1)"), 1.0 / 6 / 400);
}

}  // namespace
}  // namespace attndb::tier
