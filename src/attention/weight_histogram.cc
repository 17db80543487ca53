#include "attention/weight_histogram.h"

#include <algorithm>
#include <cmath>

namespace attndb::attention {

int WeightHistogram::FindThreshold(const DrawGoal& goal, double share, int unit,
                                   double* variance) const {
  constexpr double kStep = 1.189207115002721;  // 2^(1/4)
  constexpr double kMiddle = 1.0905077326652577;
  constexpr double kDown = 1 / kStep;
  // Sums over the lighter weights, relative to the bucket's lower end: weights and their squares.
  double sum = 0;
  double sum_squares = 0;
  double edge = std::exp2(static_cast<double>(first_ - unit) / kernels::kWordsOfTwo);
  double square = edge * edge;
  const double trade_square = goal.trade * goal.trade;
  int found = 0;
  if (variance != nullptr) *variance = goal.variance;
  for (int bucket = 0; bucket < kNumBuckets; ++bucket, square *= kStep * kStep) {
    const double reached = goal.variance + share * square * (sum - sum_squares);
    if (reached > goal.max_variance) break;
    if (square * square <= trade_square * reached) {
      found = bucket;
      if (variance != nullptr) *variance = reached;
    }
    const double count = counts_[static_cast<size_t>(bucket)];
    sum = (sum + count * kMiddle) * kDown;
    sum_squares = (sum_squares + count * kMiddle * kMiddle) * (kDown * kDown);
  }
  return first_ + kBucketWords * found;
}

}  // namespace attndb::attention
