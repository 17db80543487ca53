// Goal:   a clock that ran ahead and was set right leaves no trace: contexts expire and are evicted
//         as if it had always been right.
// Method: a simulated clock that is four years ahead for a while, with the catalog open or closed
//         when it is set right; random uses, whose order is kept by hand.
#include "store/catalog/use_dates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "common/random.h"
#include "store/catalog/catalog_test_util.h"
#include "testing/matchers.h"
#include "testing/seed.h"

namespace attndb::store {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;

constexpr int64_t kSecondUs = 1'000'000;
constexpr int64_t kFourYearsUs = int64_t{4} * 365 * 24 * 3600 * kSecondUs;

// Whether the catalog is closed while the clock is set right.
class UseDatesTest : public CatalogTest, public ::testing::WithParamInterface<bool> {
 protected:
  // Contexts "a" and "b", in the order in which they were used: a under a clock that was ahead.
  void SetUp() override {
    a_ = harness_.MustPublish(Range(0, 10), {.name = "a"});
    b_ = harness_.MustPublish(Range(20, 10), {.name = "b"});
    true_us_ = harness_.now_us + kSecondUs;
    harness_.now_us = true_us_ + kFourYearsUs;
    harness_->contexts()->Touch(a_);
  }
  void SetRight() {
    if (GetParam()) harness_.Close();
    harness_.now_us = true_us_;
    if (GetParam()) harness_.Reopen();
  }
  // All contexts that may be evicted, as they would be.
  std::vector<ContextId> Order() {
    return harness_->contexts()
        ->ChooseEvictions({.tenant = tenant(), .in_use = {}, .missing_bytes = UINT64_MAX})
        ->contexts;
  }
  // Whether the context is found, and, behind that, whether Expire leaves it.
  void ExpectServed(bool served) {
    EXPECT_EQ(harness_.Longest(Range(0, 10)).has_value(), served);
    ATTNDB_EXPECT_OK(harness_->contexts()->AnyExpired().status());
    ATTNDB_ASSERT_OK_AND_ASSIGN(const DropOutcome outcome, harness_->contexts()->Expire({}));
    EXPECT_EQ(outcome.dropped.size(), served ? 0u : 1u);
  }

  ContextId a_, b_;
  int64_t true_us_ = 0;
};

TEST_P(UseDatesTest, ATimeToLiveCountsFromNow) {
  SetRight();
  ATTNDB_ASSERT_OK(harness_->contexts()->SetTtl(tenant(), a_, seconds(2)));
  harness_.now_us += kSecondUs;
  ExpectServed(true);
  harness_.now_us += kSecondUs;
  EXPECT_TRUE(harness_->contexts()->AnyExpired().value());
  ExpectServed(false);
}

TEST_P(UseDatesTest, ATimeToLiveThatWasSetBeforeCountsFromWhenTheClockWasSeenRight) {
  ATTNDB_ASSERT_OK(harness_->contexts()->SetTtl(tenant(), a_, seconds(2)));
  SetRight();
  ExpectServed(true);
  harness_.now_us += 2 * kSecondUs;
  EXPECT_TRUE(harness_->contexts()->AnyExpired().value());
  ExpectServed(false);
}

TEST_P(UseDatesTest, AUseCountsFromNow) {
  ATTNDB_ASSERT_OK(harness_->contexts()->SetTtl(tenant(), a_, seconds(10)));
  SetRight();
  harness_.now_us += 9 * kSecondUs;
  harness_->contexts()->Touch(a_);
  EXPECT_EQ(Get(a_).last_access_us, harness_.now_us);
  ATTNDB_ASSERT_OK(harness_->FlushTouches());
  EXPECT_EQ(Get(a_).last_access_us, harness_.now_us);
  harness_.now_us += 9 * kSecondUs;
  ExpectServed(true);
  harness_.now_us += kSecondUs;
  ExpectServed(false);
}

TEST_P(UseDatesTest, TheContextThatWasUsedLastIsEvictedLast) {
  EXPECT_THAT(Order(), ElementsAre(b_, a_));
  SetRight();
  EXPECT_THAT(Order(), ElementsAre(b_, a_));
  harness_.now_us += kSecondUs;
  harness_->contexts()->Touch(b_);
  EXPECT_THAT(Order(), ElementsAre(a_, b_));
  ATTNDB_ASSERT_OK(harness_->FlushTouches());
  EXPECT_THAT(Order(), ElementsAre(a_, b_));
  const ContextId c = harness_.MustPublish(Range(40, 10));
  EXPECT_THAT(Order(), ElementsAre(a_, b_, c));
  harness_.Reopen();
  EXPECT_THAT(Order(), ElementsAre(a_, b_, c));
}

TEST_P(UseDatesTest, NoContextWasUsedInTheFuture) {
  SetRight();
  EXPECT_LE(Get(a_).last_access_us, harness_.now_us);
  EXPECT_LE(harness_->contexts()->Find(tenant(), "a")->last_access_us, harness_.now_us);
  EXPECT_LE(harness_->contexts()->List(tenant())->front().last_access_us, harness_.now_us);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto reader, harness_.Open(/*read_only=*/true));
  EXPECT_LE(reader->contexts()->Get(tenant(), a_)->last_access_us, harness_.now_us);
}

TEST_P(UseDatesTest, APinnedContextIsOneOfAllOnceItIsUnpinned) {
  ATTNDB_ASSERT_OK(harness_->contexts()->Pin(tenant(), a_, true));
  SetRight();
  EXPECT_LE(Get(a_).last_access_us, harness_.now_us);
  EXPECT_THAT(Order(), ElementsAre(b_));
  ATTNDB_ASSERT_OK(harness_->contexts()->Pin(tenant(), a_, false));
  harness_.now_us += kSecondUs;
  harness_->contexts()->Touch(b_);
  EXPECT_THAT(Order(), ElementsAre(a_, b_));
  ATTNDB_ASSERT_OK(harness_->contexts()->SetTtl(tenant(), a_, seconds(1)));
  ExpectServed(false);
}

TEST_P(UseDatesTest, TheOrderIsThatOfTheUses) {
  Random random(test::SeedOr(1));
  std::vector<ContextId> order = {b_, a_};  // The last one was used last.
  bool is_ahead = true;
  for (TokenId step = 0; step < 400; ++step) {
    SCOPED_TRACE(step);
    true_us_ += kSecondUs;
    if (is_ahead && random.OneIn(20)) {
      SetRight();
      is_ahead = false;
    } else if (random.OneIn(10)) {
      is_ahead = true;
    }
    harness_.now_us = true_us_ + (is_ahead ? kFourYearsUs : 0);
    if (order.size() < 30 && random.OneIn(4)) {
      order.push_back(harness_.MustPublish(Range(100 * step, 10)));
    } else if (random.OneIn(4)) {
      ATTNDB_ASSERT_OK(harness_->FlushTouches());
    } else {
      const auto used = order.begin() + static_cast<ptrdiff_t>(random.Uniform(order.size()));
      harness_->contexts()->Touch(*used);
      std::rotate(used, used + 1, order.end());
    }
    ASSERT_EQ(Order(), order);
  }
}

INSTANTIATE_TEST_SUITE_P(Clock, UseDatesTest, ::testing::Bool(), [](const auto& closed) {
  return closed.param ? "SetRightWhileClosed" : "SetRightWhileOpen";
});

TEST(UseDates, AClockThatStandsStillOrRunsOnIsNotBehind) {
  UseDates dates;
  dates.Begin(100, 100);
  dates.Note(ContextId{1}, 100);
  dates.Note(ContextId{2}, 101);
  EXPECT_FALSE(dates.has_ahead());
  EXPECT_EQ(dates.DateOf(ContextId{1}, 100, 101), 100);
  EXPECT_EQ(dates.DateOf(ContextId{2}, 100, 101), 101);
  EXPECT_EQ(dates.DateOf(ContextId{3}, 7, 101), 7);
  dates.Clear();
  EXPECT_TRUE(dates.is_written());
}

TEST(UseDates, UsesOfBeforeComeBeforeThoseOfAfter) {
  UseDates dates;
  dates.Begin(900, 1000);
  dates.Note(ContextId{1}, 5000);
  dates.Note(ContextId{2}, 1001);
  EXPECT_TRUE(dates.has_ahead());
  EXPECT_LT(dates.DateOfRow(4000), dates.DateOf(ContextId{1}, 0, 1001));
  EXPECT_LT(dates.DateOf(ContextId{1}, 0, 1001), dates.DateOf(ContextId{2}, 4000, 1001));
  EXPECT_EQ(dates.DateOf(ContextId{2}, 4000, 1001), 1001);
  EXPECT_EQ(dates.DateOfRow(900), 900);
}

}  // namespace
}  // namespace attndb::store
