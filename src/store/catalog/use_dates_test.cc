// Goal:   a clock that ran ahead and was set right leaves no trace: contexts expire and are evicted
//         as if it had always been right. A clock that was behind and was set right costs nothing.
// Method: a simulated clock that is four years ahead, or behind, for a while, with the catalog open
//         or closed when it is set right; random uses, whose order is kept by hand.
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

// It is ahead, right, and behind by turns.
TEST_P(UseDatesTest, TheOrderIsThatOfTheUsesUnderAnyClock) {
  Random random(test::SeedOr(2));
  std::vector<ContextId> order = {b_, a_};
  int64_t off_us = kFourYearsUs;
  for (TokenId step = 0; step < 300; ++step) {
    SCOPED_TRACE(step);
    true_us_ += kSecondUs;
    if (random.OneIn(25)) {
      if (GetParam()) harness_.Close();
      off_us = (static_cast<int64_t>(random.Uniform(5)) - 2) * kFourYearsUs;
      harness_.now_us = true_us_ + off_us;
      if (GetParam()) harness_.Reopen();
    }
    harness_.now_us = true_us_ + off_us;
    if (order.size() < 20 && random.OneIn(4)) {
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

TEST_P(UseDatesTest, TheTimeToLiveCountsOnInEveryProcess) {
  ATTNDB_ASSERT_OK(harness_->contexts()->SetTtl(tenant(), a_, seconds(10)));
  SetRight();
  ExpectServed(true);
  for (int i = 0; i < 9; ++i) {
    harness_.now_us += kSecondUs;
    if (GetParam()) harness_.Reopen();
    ExpectServed(true);
  }
  harness_.now_us += kSecondUs;
  if (GetParam()) harness_.Reopen();
  ExpectServed(false);
}

// The machine starts in 1970. Its clock is set while the store is open, or closed.
class ClockBehindTest : public CatalogTest, public ::testing::WithParamInterface<bool> {
 protected:
  static constexpr int64_t kHourUs = 3600 * kSecondUs;

  void SetUp() override {
    for (const TokenId first : {0, 20, 40}) {
      ids_.push_back(harness_.MustPublish(Range(first, 10), {.ttl = seconds(2 * 3600)}));
      harness_.now_us += kSecondUs;
    }
    true_us_ = harness_.now_us;
    harness_.Close();
    harness_.now_us = 0;
    harness_.Reopen();
  }
  void SetRight() {
    if (GetParam()) harness_.Close();
    harness_.now_us = true_us_ + kHourUs;
    if (GetParam()) harness_.Reopen();
  }
  void ExpectServed(std::vector<ContextId> ids) {
    ATTNDB_EXPECT_OK(harness_->contexts()->AnyExpired().status());
    ATTNDB_EXPECT_OK(harness_->contexts()->Expire({}).status());
    EXPECT_THAT(harness_->contexts()
                    ->ChooseEvictions({.tenant = tenant(), .missing_bytes = UINT64_MAX})
                    ->contexts,
                ids);
  }

  std::vector<ContextId> ids_;
  int64_t true_us_ = 0;
};

TEST_P(ClockBehindTest, ContextsThatNobodyUsedKeepTheirDates) {
  const int64_t used_us = true_us_ - kSecondUs;
  ATTNDB_ASSERT_OK(harness_->owners()->SetQuota(tenant(), 7));
  ExpectServed(ids_);
  EXPECT_LE(Get(ids_[2]).last_access_us, 0);
  SetRight();
  EXPECT_TRUE(harness_.Longest(Range(40, 10)).has_value());
  ExpectServed(ids_);
  EXPECT_EQ(Get(ids_[2]).last_access_us, used_us);
  harness_.now_us = used_us + 2 * kHourUs - 1;
  ExpectServed({ids_[2]});
  harness_.Reopen();
  ExpectServed({ids_[2]});
  harness_.now_us += 1;
  ExpectServed({});
}

TEST_P(ClockBehindTest, WhatWasUsedThenIsUsedWhenTheClockIsSetRight) {
  for (const bool flush : {true, false}) {
    harness_.now_us += kSecondUs;
    harness_->contexts()->Touch(ids_[flush ? 1 : 0]);
    if (!flush) break;
    ATTNDB_ASSERT_OK(harness_->FlushTouches());
  }
  harness_.now_us += kSecondUs;
  ids_.push_back(harness_.MustPublish(Range(60, 10), {.ttl = seconds(2 * 3600)}));
  SetRight();
  EXPECT_TRUE(harness_.Longest(Range(60, 10)).has_value());
  ExpectServed({ids_[2], ids_[1], ids_[0], ids_[3]});
  harness_.Reopen();
  harness_.now_us += 2 * kHourUs - kSecondUs;
  ExpectServed({ids_[1], ids_[0], ids_[3]});
  harness_.now_us += kSecondUs;
  ExpectServed({});
}

TEST_P(ClockBehindTest, WhatIsUnusedForItsTimeToLiveExpiresThere) {
  harness_.now_us += kHourUs;
  harness_->contexts()->Touch(ids_[0]);
  harness_.now_us += kHourUs;
  ExpectServed({ids_[0]});
  SetRight();
  ExpectServed({ids_[0]});
}

INSTANTIATE_TEST_SUITE_P(Clock, ClockBehindTest, ::testing::Bool(), [](const auto& closed) {
  return closed.param ? "SetRightWhileClosed" : "SetRightWhileOpen";
});

INSTANTIATE_TEST_SUITE_P(Clock, UseDatesTest, ::testing::Bool(), [](const auto& closed) {
  return closed.param ? "SetRightWhileClosed" : "SetRightWhileOpen";
});

TEST(UseDates, AClockThatStandsStillOrRunsOnIsNotBehind) {
  UseDates dates;
  dates.Begin(100, 100);
  dates.Note(ContextId{1}, 100);
  dates.Note(ContextId{2}, 101);
  EXPECT_EQ(dates.FindBehind(), nullptr);
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
  EXPECT_NE(dates.FindBehind(), nullptr);
  EXPECT_LT(dates.DateOfRow(4000), dates.DateOf(ContextId{1}, 0, 1001));
  EXPECT_LT(dates.DateOf(ContextId{1}, 0, 1001), dates.DateOf(ContextId{2}, 4000, 1001));
  EXPECT_EQ(dates.DateOf(ContextId{2}, 4000, 1001), 1001);
  EXPECT_EQ(dates.DateOfRow(900), 900);
}

}  // namespace
}  // namespace attndb::store
