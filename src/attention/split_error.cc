#include "attention/split_error.h"

#include <algorithm>
#include <cmath>

#include "kernels/weights.h"

namespace attndb::attention {

using kernels::StateRows;

SplitError FindSplitError(const StateRows& certain, const StateRows& even, const StateRows& odd,
                          float denominator_logit, size_t v_padded) {
  const StateRows* const parts[] = {&certain, &even, &odd};
  const double max = std::max({certain.max[0], even.max[0], odd.max[0], denominator_logit});
  double factor[3];
  double sum[3];
  for (size_t p = 0; p < 3; ++p) {
    factor[p] = std::exp(double{parts[p]->max[0]} - max);
    sum[p] = factor[p] * double{parts[p]->sum[0]};
  }
  sum[0] += std::exp(double{denominator_logit} - max);
  const double total = sum[0] + sum[1] + sum[2];
  double off = 0;
  double norm = 0;
  for (size_t c = 0; c < v_padded; ++c) {
    const double of_certain = factor[0] * double{certain.out[c]};
    const double of_even = factor[1] * double{even.out[c]};
    const double of_odd = factor[2] * double{odd.out[c]};
    const double by_even = (of_certain + 2 * of_even) / (sum[0] + 2 * sum[1]);
    const double by_odd =
        sum[0] + 2 * sum[2] > 0 ? (of_certain + 2 * of_odd) / (sum[0] + 2 * sum[2]) : 0;
    const double out = (of_certain + of_even + of_odd) / total;
    off += 0.25 * (by_even - by_odd) * (by_even - by_odd);
    norm += out * out;
  }
  return {norm > 0 ? std::sqrt(off / norm) : 0, (sum[1] + sum[2]) / total};
}

double ShareOfChance(const kernels::DrawnTokens& even, const kernels::DrawnTokens& odd,
                     float* scratch) {
  double sum = 0;
  for (const kernels::DrawnTokens* const half : {&even, &odd}) {
    kernels::ExpWeights(half->margins, half->count, {1.0f}, 0.0f, scratch);
    sum += double{kernels::SumAtMost(scratch, half->count, 1.0f)};
  }
  return 1.0 - sum / static_cast<double>(even.count + odd.count);
}

}  // namespace attndb::attention
