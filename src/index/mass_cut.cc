#include "index/mass_cut.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "common/infinity.h"
#include "kernels/select.h"
#include "kernels/weights.h"

namespace attndb::index {

// Positive floats compare as their bits do, so bisecting these takes some 30 passes of additions,
// which sorting could not match.
MassCut FindMassCut(const float* weights, size_t num_weights, double need) {
  const auto mass_from = [&](uint32_t bits) {
    return double{kernels::SumNotBelow(weights, num_weights, std::bit_cast<float>(bits))};
  };
  uint32_t low = 0;                               // Holds enough, or all there is.
  uint32_t high = std::bit_cast<uint32_t>(2.0f);  // Holds nothing: weights are at most 1.
  while (high - low > 1) {
    const uint32_t middle = low + (high - low) / 2;
    (mass_from(middle) >= need ? low : high) = middle;
  }
  const float least = std::bit_cast<float>(low);
  const double missing = std::max(0.0, need - mass_from(high));
  return {least, static_cast<size_t>(std::ceil(missing / std::max(double{least}, 1e-300)))};
}

double LogMassOf(const float* scores, size_t num_scores, const kernels::LogitSpec& logit,
                 float* weights) {
  if (num_scores == 0) return -kInfinity;
  const float max_logit = kernels::LogitOf(kernels::MaxScore(scores, num_scores), logit);
  kernels::ExpWeights(scores, num_scores, logit, max_logit, weights);
  return double{max_logit} + std::log(double{kernels::SumNotBelow(weights, num_scores, 0)});
}

}  // namespace attndb::index
