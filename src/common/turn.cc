#include "common/turn.h"

#include <algorithm>
#include <cmath>

namespace attndb {

Turn::Turn(std::span<const double> frequencies, int64_t positions) {
  for (const double frequency : frequencies) {
    const double angle = frequency * static_cast<double>(positions);
    cos_.push_back(static_cast<float>(std::cos(angle)));
    sin_.push_back(static_cast<float>(std::sin(angle)));
  }
}

void Turn::Rows(const float* from, size_t num_rows, size_t padded, float* to) const {
  const size_t pairs = num_pairs();
  for (size_t row = 0; row < num_rows; ++row, from += padded, to += padded) {
    for (size_t i = 0; i < pairs; ++i) {
      const float a = from[i];
      const float b = from[i + pairs];
      to[i] = a * cos_[i] - b * sin_[i];
      to[i + pairs] = a * sin_[i] + b * cos_[i];
    }
    if (to != from) std::copy(from + 2 * pairs, from + padded, to + 2 * pairs);
  }
}

}  // namespace attndb
