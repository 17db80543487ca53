// Goal:   time passes with the clock, and no faster than it can have passed.
#include "common/borne_out_time.h"

#include <gtest/gtest.h>

namespace attndb {
namespace {

constexpr int64_t kHourUs = int64_t{3600} * 1'000'000;
constexpr int64_t kYearUs = 365 * 24 * kHourUs;
constexpr int64_t kStartUs = 55 * kYearUs;

TEST(BorneOutTimeTest, ItIsThatOfTheClock) {
  const BorneOutTime time(kStartUs, 7);
  EXPECT_EQ(time.Now(kStartUs, 7), kStartUs);
  EXPECT_EQ(time.Now(kStartUs + kYearUs, 7 + kYearUs), kStartUs + kYearUs);
  EXPECT_EQ(time.Now(kStartUs + kHourUs / 2, 7), kStartUs + kHourUs / 2);  // It was corrected.
  EXPECT_EQ(time.Now(kStartUs - kYearUs, 8), kStartUs - kYearUs);          // It was set back.
}

TEST(BorneOutTimeTest, AJumpAheadIsNoTimeThatHasPassed) {
  const BorneOutTime time(kStartUs, 7);
  EXPECT_EQ(time.Now(kStartUs + 10 * kYearUs, 7), kStartUs + kHourUs);
  EXPECT_EQ(time.Now(kStartUs + 10 * kYearUs, 7 + 5 * kHourUs), kStartUs + 6 * kHourUs);
  EXPECT_EQ(time.Now(kStartUs + 6 * kHourUs, 7 + 6 * kHourUs), kStartUs + 6 * kHourUs);  // Again.
}

TEST(BorneOutTimeTest, TheMachinesClocksAgree) {
  const BorneOutTime time;
  const int64_t before_us = SystemNowMicros();
  EXPECT_GE(time.Now(), before_us);
  EXPECT_GT(SinceBootMicros(), 0);
}

}  // namespace
}  // namespace attndb
