// Softmax weights of known scores, from which the mass of a set of tokens is summed.
//
// Units:   scores are inner products, unscaled; logit.scale and soft_cap turn them into logits. A
//          weight is exp(logit - max): 1 for a logit of `max`. Relative error about 2^-20.
// Values:  a weight below kLostWeight is 0, and so is that of a score of -inf; NaN gives NaN.
// Errors:  none.
// Threads: stateless.
#ifndef ATTNDB_KERNELS_WEIGHTS_H_
#define ATTNDB_KERNELS_WEIGHTS_H_

#include <cstddef>

#include "kernels/attention_state.h"

namespace attndb::kernels {

// Tokens whose weights SumWeights adds up to one number.
inline constexpr size_t kWeightBlock = 64;

// The kernels take this from each weight; a smaller weight becomes 0.
inline constexpr double kLostWeight = 0x1p-100;

// A larger exponent is cut to this: exp of it is as good as infinite, but fit for sums in double.
inline constexpr double kMostExponent = 700;

// Number of sums that SumWeights writes.
constexpr size_t NumWeightBlocks(size_t num_scores) {
  return (num_scores + kWeightBlock - 1) / kWeightBlock;
}

// The logit of a score, as the vector kernels compute it up to rounding.
float LogitOf(float score, const LogitSpec& logit);

// The score whose logit is `value`; -inf and +inf where the soft cap is never reached.
float ScoreOfLogit(float value, const LogitSpec& logit);

// weights[i] = exp(logit(scores[i]) - max). `weights` may be `scores`.
void ExpWeights(const float* scores, size_t num_scores, const LogitSpec& logit, float max,
                float* weights);

// logits[i] = logit(scores[i]). `logits` may be `scores`.
void ToLogits(const float* scores, size_t num_scores, const LogitSpec& logit, float* logits);

// sums[b] = sum of the weights of scores [64 b, 64 b + 64).
void SumWeights(const float* scores, size_t num_scores, const LogitSpec& logit, float max,
                float* sums);

// The sum of all weights that are not below `threshold`.
float SumNotBelow(const float* weights, size_t num_weights, float threshold);

}  // namespace attndb::kernels

#endif  // ATTNDB_KERNELS_WEIGHTS_H_
