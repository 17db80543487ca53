// Goal:   a bias is found, removed from keys and added back to scores as the rotary embedding turns
//         it, at any position.
// Method: against the embedding in float64.
#include "index/planes/rotary_bias.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "common/random.h"
#include "index/planes/planes_test_util.h"

namespace attndb::index {
namespace {

using test::Rows;

// R(position) b, of the first 2 * num_pairs channels.
std::vector<double> Rotated(const std::vector<float>& b, std::span<const double> frequencies,
                            int64_t position) {
  const size_t n = frequencies.size();
  std::vector<double> rotated(2 * n);
  for (size_t j = 0; j < n; ++j) {
    const double angle = frequencies[j] * static_cast<double>(position);
    rotated[j] = double{b[j]} * std::cos(angle) - double{b[n + j]} * std::sin(angle);
    rotated[n + j] = double{b[j]} * std::sin(angle) + double{b[n + j]} * std::cos(angle);
  }
  return rotated;
}

std::vector<float> Draw(size_t count, Random* random) {
  std::vector<float> values(count);
  for (float& x : values) x = static_cast<float>(random->NextGaussian());
  return values;
}

TEST(RotaryFrequenciesTest, ScalingsThatAreNotKnownGiveNone) {
  const Rope rope = {.layout = RopeLayout::kHalf, .rope_dims = 4, .base = 100.0};
  EXPECT_EQ(RotaryFrequencies(rope, 8), (std::vector<double>{1.0, 0.1}));
  Rope other = rope;
  other.rope_dims = 0;
  EXPECT_EQ(RotaryFrequencies(other, 8).size(), 4u);
  other = rope;
  other.scaling = "linear:factor=4";
  EXPECT_EQ(RotaryFrequencies(other, 8), (std::vector<double>{0.25, 0.025}));
  for (const char* scaling : {"linear:factor=", "linear:factor=0", "linear:factor=4x", "yarn"}) {
    other.scaling = scaling;
    EXPECT_TRUE(RotaryFrequencies(other, 8).empty()) << scaling;
  }
  EXPECT_TRUE(RotaryFrequencies({}, 8).empty());
}

TEST(RotaryBiasTest, WhatWasTakenOutOfKeysIsAddedToScores) {
  Random random(1);
  for (const size_t num_pairs : {1u, 12u, 32u, 64u}) {
    const Rope rope = {.layout = RopeLayout::kHalf, .base = 1e6};
    const std::vector<double> frequencies =
        RotaryFrequencies(rope, static_cast<uint32_t>(2 * num_pairs));
    std::vector<float> bias = Draw(2 * num_pairs, &random);
    if (num_pairs == 12) bias[3] = bias[15] = 0.0f;
    const RotaryBias rotary(bias.data(), frequencies);
    const RotaryTurns turns(frequencies);
    for (const int64_t position : {0, 1000003, -17}) {
      constexpr size_t kNumKeys = 600;
      const std::vector<float> q = Draw(5 * 2 * num_pairs, &random);
      std::vector<float> terms(q.size());
      const float* rows[5];
      for (size_t r = 0; r < 5; ++r) {
        rotary.Prepare(q.data() + r * 2 * num_pairs, terms.data() + r * 2 * num_pairs);
        rows[r] = terms.data() + r * 2 * num_pairs;
      }
      std::vector<float> scores(5 * kNumKeys, 0.5f);
      rotary.AddScores(position, kNumKeys, rows, scores.data(), kNumKeys);
      Rows taken(kNumKeys, 2 * num_pairs);
      for (size_t i = 0; i < kNumKeys; i += 50) {
        turns.Subtract(bias.data(), position + static_cast<int64_t>(i), 50, taken.row(i),
                       2 * num_pairs);
      }
      for (size_t i = 0; i < kNumKeys; ++i) {
        const auto rotated = Rotated(bias, frequencies, position + static_cast<int64_t>(i));
        for (size_t d = 0; d < 2 * num_pairs; ++d) {
          EXPECT_NEAR(double{taken.row(i)[d]}, -rotated[d], 2e-6);
        }
        for (size_t r = 0; r < 5; ++r) {
          double score = 0.5;
          for (size_t d = 0; d < 2 * num_pairs; ++d) {
            score += double{q[r * 2 * num_pairs + d]} * rotated[d];
          }
          EXPECT_NEAR(double{scores[r * kNumKeys + i]}, score, 2e-4) << num_pairs << ' ' << i;
        }
      }
    }
  }
}

TEST(RotaryTurnsTest, TheMeanOfKeysTurnedBackIsTheirBias) {
  Random random(2);
  constexpr size_t kDim = 32;
  const std::vector<double> frequencies =
      RotaryFrequencies({.layout = RopeLayout::kHalf, .base = 1e4}, kDim);
  const std::vector<float> bias = Draw(kDim, &random);
  const RotaryTurns turns(frequencies);
  std::vector<double> sums(kDim);
  for (int64_t block = 0; block < 10; ++block) {
    Rows rows(64, kDim);
    turns.Subtract(bias.data(), block * 64 + 5, 64, rows.row(0), kDim);
    turns.SumTurnedBack(rows.row(0), kDim, 64, block * 64 + 5, sums.data());
  }
  for (size_t d = 0; d < kDim; ++d) EXPECT_NEAR(sums[d] / 640, -double{bias[d]}, 1e-5);
}

}  // namespace
}  // namespace attndb::index
