// Goal:   as many tokens are drawn as were asked for, heavy ones always, light ones in proportion
//         to their weight.
// Method: many draws of one set of scores, against weights in float64.
// Replay: seeds are constants.
#include "attention/threshold_sample.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/draw.h"

namespace attndb::attention {
namespace {

constexpr float kScale = 0.7f;

class ThresholdSampleTest : public ::testing::Test {
 protected:
  void Fill(size_t num_tokens, float spread) {
    std::mt19937 random(3);
    std::normal_distribution<float> normal(0.0f, spread);
    scores_.resize(num_tokens);
    for (float& score : scores_) score = normal(random);
  }
  float Threshold(double wanted) {
    std::vector<float> scores = scores_;
    return FindThresholdOfScores(scores.data(), scores.size(), {kScale}, 1.0, wanted);
  }
  // Probability that a token is drawn.
  double Chance(size_t token, float threshold) const {
    return std::min(1.0, std::exp(kScale * double{scores_[token]} - double{threshold}));
  }
  double MeanDrawn(float threshold) const {
    double sum = 0;
    for (size_t i = 0; i < scores_.size(); ++i) sum += Chance(i, threshold);
    return sum;
  }
  void Draw(float threshold, uint64_t seed) {
    const DrawNoise noise(seed);
    drawn_.resize(scores_.size());
    std::vector<float> kept_noise(scores_.size());
    std::vector<float> kept_scores(scores_.size());
    kernels::KeptTokens kept = {drawn_.data(), kept_noise.data(), kept_scores.data()};
    for (size_t begin = 0; begin < scores_.size(); begin += DrawNoise::kStretch) {
      const size_t n = std::min<size_t>(DrawNoise::kStretch, scores_.size() - begin);
      kernels::KeepTokens({{kScale}, &threshold}, scores_.data() + begin, 0, 1, n,
                          noise.From(begin), static_cast<uint32_t>(begin), &kept);
    }
    drawn_.resize(kept.count);
  }
  bool IsDrawn(size_t token) const { return std::ranges::binary_search(drawn_, token); }

  std::vector<float> scores_;
  std::vector<uint32_t> drawn_;
};

TEST_F(ThresholdSampleTest, TheThresholdDrawsAsManyAsWanted) {
  for (const float spread : {0.0f, 0.1f, 3.0f, 8.0f}) {
    for (const size_t num_tokens : {500u, 8192u, 50000u}) {
      Fill(num_tokens, spread);
      for (const double wanted : {5.0, 100.0, 450.0}) {
        EXPECT_NEAR(MeanDrawn(Threshold(wanted)), wanted, 0.02 * wanted) << spread;
      }
    }
  }
}

TEST_F(ThresholdSampleTest, EachTokenCanStandForSeveral) {
  Fill(1000, 3.0f);
  std::vector<float> scores = scores_;
  const float threshold = FindThresholdOfScores(scores.data(), 1000, {kScale}, 7.0, 140.0);
  EXPECT_NEAR(threshold, Threshold(20.0), 0.02);
}

TEST_F(ThresholdSampleTest, WhereThereAreNoMoreAllAreDrawn) {
  Fill(1000, 3.0f);
  EXPECT_EQ(Threshold(1000), -std::numeric_limits<float>::infinity());
  Draw(Threshold(1000), 1);
  EXPECT_EQ(drawn_.size(), 1000u);
}

TEST_F(ThresholdSampleTest, TokensAreDrawnInProportionToTheirWeight) {
  constexpr int kDraws = 4000;
  Fill(3000, 3.0f);
  const float threshold = Threshold(300);
  std::vector<int> times(scores_.size());
  for (uint64_t draw = 0; draw < kDraws; ++draw) {
    Draw(threshold, draw);
    for (const size_t token : drawn_) ++times[token];
  }
  for (size_t i = 0; i < scores_.size(); ++i) {
    const double p = Chance(i, threshold);
    const double found = static_cast<double>(times[i]) / kDraws;
    // Five standard deviations, and the rounding of the table.
    ASSERT_NEAR(found, p, 5 * std::sqrt(p * (1 - p) / kDraws) + 1.0 / 4096) << i;
  }
}

TEST_F(ThresholdSampleTest, ASmallerSampleIsAPartOfALargerOne) {
  Fill(9000, 3.0f);
  Draw(Threshold(2000), 5);
  const std::vector<uint32_t> large = drawn_;
  Draw(Threshold(300), 5);
  EXPECT_TRUE(std::ranges::includes(large, drawn_));
}

TEST_F(ThresholdSampleTest, TokensFarApartAreDrawnIndependently) {
  constexpr int kDraws = 4000;
  Fill(20000, 0.0f);
  int both = 0;
  for (uint64_t draw = 0; draw < kDraws; ++draw) {
    Draw(std::log(5.0f), draw);
    both += static_cast<int>(IsDrawn(100) && IsDrawn(100 + 2 * DrawNoise::kStretch));
  }
  EXPECT_NEAR(both / double{kDraws}, 0.04, 5 * std::sqrt(0.04 / kDraws));
}

TEST_F(ThresholdSampleTest, NaNIsDrawn) {
  Fill(5000, 3.0f);
  scores_[4100] = std::nanf("");
  Draw(5.0f, 1);
  EXPECT_TRUE(IsDrawn(4100));
  Draw(Threshold(10), 1);
  EXPECT_TRUE(IsDrawn(4100));
}

}  // namespace
}  // namespace attndb::attention
