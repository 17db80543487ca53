#include "common/position_turns.h"

#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "common/check.h"

namespace attndb {
namespace {

// Positions whose angles are sums of the block's and one of a table.
constexpr int64_t kBlock = 64;

int64_t BlockOf(int64_t position) {
  return position >= 0 ? position / kBlock : -((kBlock - 1 - position) / kBlock);
}

// Cosines and sines of the first position of the block that was asked for last.
class BlockAngles {
 public:
  explicit BlockAngles(std::span<const double> frequencies) : frequencies_(frequencies) {}

  void MoveTo(int64_t block) {
    if (block == block_) return;
    block_ = block;
    for (size_t i = 0; i < frequencies_.size(); ++i) {
      const double angle = frequencies_[i] * static_cast<double>(block * kBlock);
      cos_[i] = std::cos(angle);
      sin_[i] = std::sin(angle);
    }
  }
  const double* cosines() const { return cos_.data(); }
  const double* sines() const { return sin_.data(); }

 private:
  const std::span<const double> frequencies_;
  int64_t block_ = std::numeric_limits<int64_t>::min();  // None.
  std::array<double, PositionTurns::kMaxPairs> cos_;
  std::array<double, PositionTurns::kMaxPairs> sin_;
};

}  // namespace

PositionTurns::PositionTurns(std::vector<double> frequencies)
    : frequencies_(std::move(frequencies)) {
  ATTNDB_CHECK(frequencies_.size() <= kMaxPairs);
  for (int64_t step = 0; step < kBlock; ++step) {
    for (const double frequency : frequencies_) {
      cos_.push_back(std::cos(frequency * static_cast<double>(step)));
      sin_.push_back(std::sin(frequency * static_cast<double>(step)));
    }
  }
}

template <typename PositionOf>
void PositionTurns::TurnRows(const PositionOf& position_of, double sign, size_t num_rows,
                             size_t padded, float* rows) const {
  const size_t pairs = frequencies_.size();
  BlockAngles block(frequencies_);
  for (size_t row = 0; row < num_rows; ++row, rows += padded) {
    const int64_t position = position_of(row);
    const int64_t number = BlockOf(position);
    block.MoveTo(number);
    const double* const base_cos = block.cosines();
    const double* const base_sin = block.sines();
    const auto step = static_cast<size_t>(position - number * kBlock) * pairs;
    for (size_t i = 0; i < pairs; ++i) {
      const double cosine = base_cos[i] * cos_[step + i] - base_sin[i] * sin_[step + i];
      const double sine = sign * (base_sin[i] * cos_[step + i] + base_cos[i] * sin_[step + i]);
      const auto a = static_cast<double>(rows[i]);
      const auto b = static_cast<double>(rows[i + pairs]);
      rows[i] = static_cast<float>(a * cosine - b * sine);
      rows[i + pairs] = static_cast<float>(a * sine + b * cosine);
    }
  }
}

void PositionTurns::On(int64_t first, size_t num_rows, size_t padded, float* rows) const {
  TurnRows([first](size_t row) { return first + static_cast<int64_t>(row); }, 1, num_rows, padded,
           rows);
}

void PositionTurns::Back(int64_t first, size_t num_rows, size_t padded, float* rows) const {
  TurnRows([first](size_t row) { return first + static_cast<int64_t>(row); }, -1, num_rows, padded,
           rows);
}

void PositionTurns::On(int64_t first, std::span<const uint32_t> offsets, size_t padded,
                       float* rows) const {
  TurnRows([&](size_t row) { return first + int64_t{offsets[row]}; }, 1, offsets.size(), padded,
           rows);
}

}  // namespace attndb
