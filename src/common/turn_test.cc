// Goal:   a turn moves rows as RoPE at other positions would have.
// Method: rows rotated in float64 at both positions.
// Replay: ATTNDB_SEED.
#include "common/turn.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "common/rope_frequencies.h"

namespace attndb {
namespace {

constexpr uint32_t kDim = 48;
constexpr uint32_t kRopeDims = 32;
constexpr size_t kPadded = 64;

std::vector<double> Rotated(const std::vector<double>& row, const std::vector<double>& frequencies,
                            int64_t position) {
  std::vector<double> out = row;
  const size_t pairs = frequencies.size();
  for (size_t i = 0; i < pairs; ++i) {
    const double angle = frequencies[i] * static_cast<double>(position);
    out[i] = row[i] * std::cos(angle) - row[i + pairs] * std::sin(angle);
    out[i + pairs] = row[i] * std::sin(angle) + row[i + pairs] * std::cos(angle);
  }
  return out;
}

class TurnTest : public ::testing::TestWithParam<int64_t> {};

TEST_P(TurnTest, MovesRowsToOtherPositions) {
  const std::vector<double> frequencies =
      *RopeFrequencies({.layout = RopeLayout::kHalf, .rope_dims = kRopeDims}, kDim);
  ASSERT_EQ(frequencies.size(), kRopeDims / 2);
  const Turn turn(frequencies, GetParam());
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  for (const int64_t position : {0, 17, 4000}) {
    std::vector<double> row(kDim);
    for (double& x : row) x = normal(random);
    const std::vector<double> before = Rotated(row, frequencies, position);
    const std::vector<double> expected = Rotated(row, frequencies, position + GetParam());
    std::vector<float> rows(2 * kPadded);
    for (size_t d = 0; d < kDim; ++d) {
      rows[d] = rows[kPadded + d] = static_cast<float>(before[d]);
    }
    std::vector<float> turned(rows.size(), -1.0f);
    turn.Rows(rows.data(), 2, kPadded, turned.data());
    for (size_t d = 0; d < kPadded; ++d) {
      const double wanted = d < kDim ? expected[d] : 0;
      EXPECT_NEAR(double{turned[d]}, wanted, 1e-6) << d;
      EXPECT_EQ(turned[kPadded + d], turned[d]);
    }
    turn.Rows(rows.data(), 2, kPadded, rows.data());
    EXPECT_EQ(rows, turned);
  }
}

INSTANTIATE_TEST_SUITE_P(Positions, TurnTest, ::testing::Values(0, 1, -1, 977, -4096, 1000000));

}  // namespace
}  // namespace attndb
