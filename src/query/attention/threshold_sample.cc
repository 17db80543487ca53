#include "query/attention/threshold_sample.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "common/random.h"
#include "kernels/draw.h"
#include "kernels/select.h"
#include "kernels/weights.h"

namespace attndb::query {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLeastLogit = -60.0f;  // Of a threshold, below the largest logit.

// -log of evenly spread numbers in (0, 1), shuffled; twice, so that any stretch lies in one piece.
class NoiseTable {
 public:
  static constexpr size_t kSize = DrawNoise::kStretch;

  NoiseTable() {
    constexpr uint64_t kSeed = 20051;
    Random random(kSeed);
    for (size_t i = 0; i < kSize; ++i) {
      noise_[i] = static_cast<float>(-std::log((static_cast<double>(i) + 0.5) / kSize));
    }
    for (size_t i = kSize; i > 1; --i) std::swap(noise_[i - 1], noise_[random.Uniform(i)]);
    std::copy_n(noise_.begin(), kSize, noise_.begin() + kSize);
  }
  const float* From(uint64_t place) const { return noise_.data() + place; }

 private:
  std::array<float, 2 * kSize> noise_;
};

}  // namespace

const float* DrawNoise::From(uint64_t token) const {
  static const NoiseTable kTable;
  const uint64_t place = Random(seed_ + token / kStretch).Uniform(kStretch);
  return kTable.From(place) + token % kStretch;
}

float FindThreshold(const float* weights, size_t num_weights, double share, double num_wanted) {
  if (share * static_cast<double>(num_weights) <= num_wanted) return -kInfinity;
  const auto capped_sum = [&](float limit) {
    return share * double{kernels::SumAtMost(weights, num_weights, limit)};
  };
  constexpr int kSteps = 13;
  float low = kLeastLogit;  // Draws enough, or all that there is.
  float high = static_cast<float>(std::log(capped_sum(1.0f) / num_wanted));  // Too few.
  for (int i = 0; i < kSteps && low < high; ++i) {
    const float middle = std::midpoint(low, high);
    const float threshold = std::exp(middle);
    (capped_sum(threshold) >= num_wanted * double{threshold} ? low : high) = middle;
  }
  return low;
}

float FindThresholdOfScores(float* scores, size_t num_scores, const kernels::LogitSpec& logit,
                            double share, double num_wanted) {
  const float max = kernels::LogitOf(kernels::MaxScore(scores, num_scores), logit);
  kernels::ExpWeights(scores, num_scores, logit, max, scores);
  return max + FindThreshold(scores, num_scores, share, num_wanted);
}

}  // namespace attndb::query
