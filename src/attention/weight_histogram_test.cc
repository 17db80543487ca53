// Goal:   thresholds are those of the goal, as far as buckets tell weights apart.
// Method: log-normal weights against sums over all of them.
// Replay: seeds are constants.
#include "attention/weight_histogram.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace attndb::attention {
namespace {

constexpr int kUnit = 9000;

class WeightHistogramTest : public ::testing::TestWithParam<double> {
 protected:
  WeightHistogramTest() {
    std::mt19937 random(7);
    std::normal_distribution<double> normal(-14, GetParam());
    histogram_.Reset(kUnit);
    for (int i = 0; i < 5000; ++i) {
      const double octaves = std::min(-0.1, normal(random));
      histogram_.Add(kUnit + static_cast<int>(std::floor(128 * octaves)));
      weights_.push_back(std::exp2(octaves));
    }
  }

  // Variance of weights that stand for kShare tokens each.
  double Variance(double threshold) const {
    double sum = 0;
    for (const double w : weights_) sum += w < threshold ? w * (threshold - w) : 0;
    return kShare * sum;
  }
  static double ThresholdOf(int words) { return std::exp2(double(words - kUnit) / 128); }

  static constexpr double kShare = 3;
  WeightHistogram histogram_;
  std::vector<double> weights_;
};

TEST_P(WeightHistogramTest, VarianceIsAsLargeAsItMayBe) {
  for (const double most : {1e-7, 1e-4, 1e-2}) {
    double found = 0;
    const int words = histogram_.FindThreshold({0, 1e9, most}, kShare, kUnit, &found);
    const double threshold = ThresholdOf(words);
    EXPECT_LE(found, most);
    EXPECT_NEAR(Variance(threshold), found, 0.15 * found + 1e-12);
    EXPECT_GT(Variance(1.5 * threshold), 0.8 * most);
  }
}

TEST_P(WeightHistogramTest, OneMoreTokenTakesOffAsMuchAsIsAsked) {
  for (const double trade : {1e-5, 1e-4}) {
    const int words = histogram_.FindThreshold({1e-6, trade, 1e9}, kShare, kUnit);
    const double threshold = ThresholdOf(words);
    const auto taken_off = [&](double t) { return t * t / std::sqrt(1e-6 + Variance(t)); };
    EXPECT_LT(taken_off(threshold), 1.2 * trade);
    EXPECT_GT(taken_off(1.5 * threshold), 0.8 * trade);
  }
}

TEST_P(WeightHistogramTest, WithoutAThresholdTheLowestIsFound) {
  const int words = histogram_.FindThreshold({1.0, 1e-3, 0.5}, kShare, kUnit);
  EXPECT_EQ(words, kUnit - WeightHistogram::kNumBuckets * WeightHistogram::kBucketWords);
}

INSTANTIATE_TEST_SUITE_P(Deviations, WeightHistogramTest, ::testing::Values(0.5, 2.0, 4.0));

TEST(WeightHistogramEdgeTest, WordsBeyondItCountAsTheNearest) {
  WeightHistogram histogram;
  histogram.Reset(kUnit);
  histogram.Add(-100000);
  histogram.Add(100000);
  double variance = 0;
  // The heavy one is in the last bucket: below its end nothing weighs anything.
  histogram.FindThreshold({0, 1e9, 1e9}, 1.0, kUnit, &variance);
  EXPECT_LT(variance, 1e-15);
}

}  // namespace
}  // namespace attndb::attention
