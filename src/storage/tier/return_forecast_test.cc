// Goal:   chances and times follow the conversations that the forecast has seen.
// Method: exponential thoughts of a known mean, against the closed form.
#include "storage/tier/return_forecast.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "common/random.h"

namespace attndb::tier {
namespace {

// 60 % of 10,000 conversations of 1 turn return, after 100 s in the mean; none does after 2 turns.
ReturnForecast Trained() {
  ReturnForecast forecast;
  Random random(7);
  for (int i = 0; i < 6000; ++i) {
    forecast.AddReturn(1, -100.0 * std::log(1.0 - random.NextDouble()), false);
  }
  for (int i = 0; i < 4000; ++i) forecast.AddGone(1);
  for (int i = 0; i < 10000; ++i) forecast.AddGone(2);
  return forecast;
}

TEST(ReturnForecastTest, AChanceDependsOnTheTurns) {
  const ReturnForecast forecast = Trained();
  EXPECT_NEAR(forecast.Expect(1, 0.0).chance, 0.6, 0.01);
  EXPECT_LT(forecast.Expect(2, 0.0).chance, 0.001);
}

TEST(ReturnForecastTest, WhoIsIdleForLongIsLessLikelyToReturn) {
  const ReturnForecast forecast = Trained();
  for (const double idle : {50.0, 100.0, 300.0}) {
    const double longer = std::exp(-idle / 100.0);
    EXPECT_NEAR(forecast.Expect(1, idle).chance, 0.6 * longer / (0.6 * longer + 0.4), 0.03) << idle;
  }
}

TEST(ReturnForecastTest, TheTimeThatIsLeftOfAnExponentialThoughtIsItsMean) {
  const ReturnForecast forecast = Trained();
  for (const double idle : {0.0, 50.0, 200.0}) {
    EXPECT_NEAR(forecast.Expect(1, idle).seconds, 100.0, 15.0) << idle;
  }
}

TEST(ReturnForecastTest, TheHorizonLeavesOutOneReturnInAHundred) {
  EXPECT_NEAR(Trained().Horizon(), 100.0 * std::log(100.0), 90.0);  // A bucket is 19 % wide.
}

TEST(ReturnForecastTest, WhoWasGoneAndReturnsIsCountedOnce) {
  ReturnForecast forecast;
  for (int i = 0; i < 1000; ++i) forecast.AddGone(1);
  for (int i = 0; i < 1000; ++i) forecast.AddReturn(1, 10.0, true);
  EXPECT_GT(forecast.Expect(1, 0.0).chance, 0.99);
}

TEST(ReturnForecastTest, WithoutExperienceMostReturnAndNobodyIsGone) {
  const ReturnForecast forecast;
  EXPECT_NEAR(forecast.Expect(1, 0.0).chance, 0.7, 1e-9);
  EXPECT_EQ(forecast.Horizon(), std::numeric_limits<double>::infinity());
  EXPECT_EQ(forecast.Expect(1, 500.0).seconds, 500.0);
}

TEST(ReturnForecastTest, OldHabitsAreForgotten) {
  ReturnForecast forecast;
  for (int i = 0; i < 1'000'000; ++i) forecast.AddReturn(1, 1000.0, false);
  for (int i = 0; i < 500'000; ++i) forecast.AddReturn(1, 1.0, false);
  EXPECT_LT(forecast.Expect(1, 0.0).seconds, 10.0);  // The mean of all is 667.
}

TEST(ReturnForecastTest, AbsurdTimesAreCounted) {
  ReturnForecast forecast;
  for (const double idle : {-5.0, 0.0, 1e30}) forecast.AddReturn(1'000'000, idle, false);
  EXPECT_GT(forecast.Expect(1'000'000, 1e30).chance, 0.0);
  EXPECT_GE(forecast.Expect(1, -5.0).seconds, 0.0);
}

// Thoughts of 1 s are in the bucket from 2^(4/4) - 1 to 2^(5/4) - 1 seconds, those of 1000 s in one
// that ends at 2^(40/4) - 1.
TEST(ReturnForecastTest, TheHorizonIsTheEdgeBehindWhichNoMoreThanOneInAHundredCame) {
  ReturnForecast forecast;
  for (int i = 0; i < 99; ++i) forecast.AddReturn(1, 1.0, false);
  forecast.AddReturn(1, 1000.0, false);
  EXPECT_DOUBLE_EQ(forecast.Horizon(), std::exp2(1.25) - 1.0);
  forecast.AddReturn(1, 1000.0, false);
  EXPECT_DOUBLE_EQ(forecast.Horizon(), 1023.0);
}

TEST(ReturnForecastTest, CountsAreHalvedOnceThereAreMoreThan65536) {
  ReturnForecast forecast;
  for (int i = 0; i < 65536; ++i) forecast.AddReturn(1, 1.0, false);
  EXPECT_NEAR(forecast.Expect(1, 0.0).chance, (65536 + 1.4) / (65536 + 2), 1e-9);
  forecast.AddReturn(1, 1.0, false);
  EXPECT_NEAR(forecast.Expect(1, 0.0).chance, (32768.5 + 1.4) / (32768.5 + 2), 1e-9);
}

}  // namespace
}  // namespace attndb::tier
