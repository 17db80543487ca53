// Goal:   each token is drawn as often as its weight asks for, and the mass is right.
// Method: all offsets of a fine grid: systematic sampling has no other randomness.
#include "attention/remainder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/weights.h"

namespace attndb::attention {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

class RemainderTest : public ::testing::Test {
 protected:
  RemainderTest() {
    std::mt19937 random(3);
    std::normal_distribution<float> normal(0.0f, 2.0f);
    for (float& score : scores_) score = normal(random);
    for (size_t i = 0; i < scores_.size(); i += 3) scores_[i] = -kInf;  // Selected.
  }

  RemainderCall Call() {
    masses_.resize(kernels::NumWeightBlocks(scores_.size()));
    weights_.resize(kernels::kWeightBlock);
    const index::ScoreView view = {scores_.data(), scores_.size()};
    return {view, {0, scores_.size()}, {0.7f}, 2.0f, masses_.data(), weights_.data()};
  }

  double Weight(size_t i) const { return std::exp(0.7 * double{scores_[i]} - 2.0); }

  std::vector<float> scores_ = std::vector<float>(1000);
  std::vector<uint32_t> indices_;
  std::vector<float> masses_;
  std::vector<float> weights_;
};

TEST_F(RemainderTest, TokensAreDrawnInProportionToTheirWeight) {
  constexpr int kOffsets = 2000;
  for (const uint32_t num_samples : {1u, 7u, 100u}) {
    std::vector<double> drawn(scores_.size());
    double mass = 0;
    for (size_t i = 0; i < scores_.size(); ++i) mass += Weight(i);
    for (int k = 0; k < kOffsets; ++k) {
      indices_.assign(num_samples, 12345);
      const RemainderCall call = Call();
      const double found = RemainderMass(call);
      ASSERT_NEAR(found, mass, 1e-5 * mass);
      DrawRemainder(call, {found, num_samples, (k + 0.5) / kOffsets}, indices_.data());
      ASSERT_TRUE(std::ranges::is_sorted(indices_));
      for (const uint32_t i : indices_) drawn[i] += 1.0 / kOffsets;
    }
    for (size_t i = 0; i < scores_.size(); ++i) {
      ASSERT_NEAR(drawn[i], num_samples * Weight(i) / mass, 1.1 / kOffsets) << i;
    }
  }
}

TEST_F(RemainderTest, OfNothingThereIsNoMassAndNaNIsSeen) {
  std::ranges::fill(scores_, -kInf);
  EXPECT_EQ(RemainderMass(Call()), 0.0);
  scores_[500] = std::nanf("");
  EXPECT_TRUE(std::isnan(RemainderMass(Call())));
}

}  // namespace
}  // namespace attndb::attention
