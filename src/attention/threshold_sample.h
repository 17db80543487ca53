// A sample of tokens in which heavy ones stand for themselves and light ones for their like.
//
// Method:  with a threshold t on weights, a token of weight w >= t is drawn for certain, a lighter
//          one with probability w / t. Each light one that was drawn stands for the weight t, so
//          sums over the drawn are unbiased, of weights and of weighted values alike. No scheme of
//          as many rows has less variance: a token is read for certain where leaving it to chance
//          would cost more than one draw. t is chosen so that sum of min(1, w / t) tokens are drawn
//          in the mean.
// Draw:    token i is drawn if logit_i + e_i >= log t, e_i = -log(u_i) for uniform u_i: one pass of
//          additions and comparisons (kernels/draw.h). Samples of one seed are nested: that of a
//          larger t is a part of that of a smaller one, and can be drawn from it.
// Threads: pure functions.
// Source:  threshold sampling: Duffield, Lund and Thorup, Learn more, sample less, IEEE
//          Transactions on Information Theory 51(5), 2005.
#ifndef ATTNDB_ATTENTION_THRESHOLD_SAMPLE_H_
#define ATTNDB_ATTENTION_THRESHOLD_SAMPLE_H_

#include <cstddef>
#include <cstdint>

#include "kernels/attention_state.h"

namespace attndb::attention {

// The e_i of a draw: evenly spread and shuffled in a table, at a random place of it for each
// stretch of tokens. Tokens lighter than t by a factor of the table's length are never drawn.
class DrawNoise {
 public:
  static constexpr uint64_t kStretch = 4096;

  explicit DrawNoise(uint64_t seed) : seed_(seed) {}

  // e of `token` and those after it, up to the next multiple of kStretch.
  const float* From(uint64_t token) const;

 private:
  const uint64_t seed_;
};

// The log of the threshold by which so many tokens are drawn in the mean, of tokens of which each
// weight stands for `share`. Weights are at most 1; one of NaN counts as a heavy one. -inf if there
// are not more tokens than that.
float FindThreshold(const float* weights, size_t num_weights, double share, double num_wanted);

// The same as a logit, for tokens of these scores, which are overwritten.
float FindThresholdOfScores(float* scores, size_t num_scores, const kernels::LogitSpec& logit,
                            double share, double num_wanted);

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_THRESHOLD_SAMPLE_H_
