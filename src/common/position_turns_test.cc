// Goal:   rows are turned to their positions and back.
// Method: RoPE of each row in float64.
#include "common/position_turns.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "attndb/types.h"
#include "common/rope_frequencies.h"

namespace attndb {
namespace {

constexpr uint32_t kDim = 40;
constexpr uint32_t kRopeDims = 32;
constexpr size_t kPadded = 48;

class PositionTurnsTest : public ::testing::TestWithParam<int64_t> {
 protected:
  PositionTurnsTest() {
    std::mt19937 random(11);
    std::normal_distribution<float> normal;
    for (float& x : plain_) x = normal(random);
  }

  // Row `row` of plain_ at a position.
  std::vector<float> At(size_t row, int64_t position) const {
    const float* const from = plain_.data() + row * kPadded;
    std::vector<float> to(from, from + kPadded);
    for (size_t i = 0; i < frequencies_.size(); ++i) {
      const double angle = frequencies_[i] * static_cast<double>(position);
      const double a = double{from[i]};
      const double b = double{from[i + frequencies_.size()]};
      to[i] = static_cast<float>(a * std::cos(angle) - b * std::sin(angle));
      to[i + frequencies_.size()] = static_cast<float>(a * std::sin(angle) + b * std::cos(angle));
    }
    return to;
  }

  void ExpectRow(const std::vector<float>& rows, size_t row, const std::vector<float>& expected) {
    for (size_t d = 0; d < kPadded; ++d) {
      EXPECT_NEAR(rows[row * kPadded + d], expected[d], 1e-6) << "row " << row << ", " << d;
    }
  }

  static constexpr size_t kRows = 150;  // More than two blocks of angles.
  const std::vector<double> frequencies_ =
      *RopeFrequencies({.layout = RopeLayout::kHalf, .rope_dims = kRopeDims}, kDim);
  const PositionTurns turns_ = PositionTurns(frequencies_);
  std::vector<float> plain_ = std::vector<float>(kRows * kPadded);
};

TEST_P(PositionTurnsTest, RowsStandOneBehindTheOther) {
  std::vector<float> rows = plain_;
  turns_.On(GetParam(), kRows, kPadded, rows.data());
  for (size_t row = 0; row < kRows; ++row) {
    ExpectRow(rows, row, At(row, GetParam() + static_cast<int64_t>(row)));
  }
  turns_.Back(GetParam(), kRows, kPadded, rows.data());
  for (size_t i = 0; i < rows.size(); ++i) EXPECT_NEAR(rows[i], plain_[i], 1e-6);
}

TEST_P(PositionTurnsTest, RowsOfAListStandWhereItSays) {
  const std::vector<uint32_t> offsets = {3, 0, 70, 70, 1000};
  std::vector<float> rows = plain_;
  turns_.On(GetParam(), offsets, kPadded, rows.data());
  for (size_t row = 0; row < offsets.size(); ++row) {
    ExpectRow(rows, row, At(row, GetParam() + offsets[row]));
  }
}

INSTANTIATE_TEST_SUITE_P(Positions, PositionTurnsTest,
                         ::testing::Values(0, 1, 63, 64, 977, -1, -64, -100, 1000000));

}  // namespace
}  // namespace attndb
