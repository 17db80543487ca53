#include "attention/threshold_sample.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "common/infinity.h"
#include "common/random.h"
#include "kernels/draw.h"
#include "kernels/select.h"
#include "kernels/weights.h"

namespace attndb::attention {
namespace {

constexpr float kLeastLogit = -60.0f;  // Lowest threshold, below the largest logit.

// The search for a threshold ends within this many nats, a share of the wanted size.
constexpr double kCloseEnough = 0.004;
constexpr int kMostSteps = 24;

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
  // By how many nats a threshold of x draws too many; decreasing.
  const auto excess = [&](double x) {
    const auto limit = static_cast<float>(std::exp(x));
    return std::log(share * double{kernels::SumAtMost(weights, num_weights, limit)} / num_wanted) -
           x;
  };
  double x = 0;  // No weight is larger.
  double found = excess(x);
  if (found >= 0) return static_cast<float>(found);  // All weigh less.
  // Secants, about five steps; bisection if a secant leaves the interval.
  double low = kLeastLogit;
  double high = x;
  double next = x + found;
  for (int i = 0; i < kMostSteps; ++i) {
    if (!(next > low && next < high)) next = std::midpoint(low, high);
    const double found_next = excess(next);
    if (std::abs(found_next) < kCloseEnough) return static_cast<float>(next);
    (found_next > 0 ? low : high) = next;
    const double step = found_next * (next - x) / (found - found_next);
    x = next;
    found = found_next;
    next = x + step;
  }
  return static_cast<float>(low);
}

float FindThresholdOfScores(float* scores, size_t num_scores, const kernels::LogitSpec& logit,
                            double share, double num_wanted) {
  const float max = kernels::LogitOf(kernels::MaxScore(scores, num_scores), logit);
  kernels::ExpWeights(scores, num_scores, logit, max, scores);
  return max + FindThreshold(scores, num_scores, share, num_wanted);
}

}  // namespace attndb::attention
