// Goal:   a seed gives the same numbers for ever, and they are spread as promised.
// Method: known outputs of SplitMix64; moments of samples.
#include "common/random.h"

#include <gtest/gtest.h>

#include <array>

namespace attndb {
namespace {

TEST(Random, GivesTheKnownSequenceOfSeedZero) {
  Random random(0);
  EXPECT_EQ(random.Next(), 0xe220a8397b1dcdafu);
  EXPECT_EQ(random.Next(), 0x6e789e6aa1b965f4u);
  EXPECT_EQ(random.Next(), 0x06c45d188009454fu);
}

TEST(Random, UniformStaysInRangeAndReachesEveryValue) {
  Random random(7);
  std::array<int, 10> counts = {};
  for (int i = 0; i < 10000; ++i) ++counts.at(random.Uniform(counts.size()));
  for (const int count : counts) EXPECT_NEAR(count, 1000, 150);
  EXPECT_EQ(random.Uniform(1), 0u);
}

TEST(Random, DoublesAndGaussiansHaveTheirMoments) {
  Random random(8);
  constexpr int kSamples = 20000;
  double sum = 0, gaussian_sum = 0, gaussian_squares = 0;
  for (int i = 0; i < kSamples; ++i) {
    const double uniform = random.NextDouble();
    ASSERT_GE(uniform, 0.0);
    ASSERT_LT(uniform, 1.0);
    sum += uniform;
    const double gaussian = random.NextGaussian();
    gaussian_sum += gaussian;
    gaussian_squares += gaussian * gaussian;
  }
  EXPECT_NEAR(sum / kSamples, 0.5, 0.02);
  EXPECT_NEAR(gaussian_sum / kSamples, 0.0, 0.04);
  EXPECT_NEAR(gaussian_squares / kSamples, 1.0, 0.05);
}

}  // namespace
}  // namespace attndb
