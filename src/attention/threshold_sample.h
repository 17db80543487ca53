// A sample of tokens in which heavy tokens represent themselves, and a light one represents others
// like it.
//
// Method:  with a threshold t on weights, a token of weight w >= t is drawn for certain, a lighter
//          one with probability w / t. Each drawn light token counts with the weight t, so sums
//          over the drawn tokens are unbiased, of weights and of weighted values alike. No scheme
//          with as many rows has less variance: a token is certain if leaving it to chance would
//          cost more than one draw. t is chosen so that sum of min(1, w / t) tokens are drawn on
//          average.
// Draw:    token i is drawn if logit_i + e_i >= log t, with e_i = -log(u_i) for uniform u_i: one
//          pass of additions and comparisons (kernels/draw.h). Samples of one seed are nested: the
//          sample of a larger t is part of the sample of a smaller t, and can be drawn from it.
// Threads: pure functions.
// Source:  threshold sampling: Duffield, Lund and Thorup, Learn more, sample less, IEEE
//          Transactions on Information Theory 51(5), 2005.
#ifndef ATTNDB_ATTENTION_THRESHOLD_SAMPLE_H_
#define ATTNDB_ATTENTION_THRESHOLD_SAMPLE_H_

#include <cstddef>
#include <cstdint>

#include "kernels/attention_state.h"

namespace attndb::attention {

// The e_i of a draw: evenly spread and shuffled in a table, read from a random place for each
// stretch of tokens. Tokens that are lighter than t by the table's length as a factor are never
// drawn.
class DrawNoise {
 public:
  static constexpr uint64_t kStretch = 4096;

  explicit DrawNoise(uint64_t seed) : seed_(seed) {}

  // e of `token` and the tokens after it, up to the next multiple of kStretch.
  const float* From(uint64_t token) const;

 private:
  const uint64_t seed_;
};

// The log of the threshold by which num_wanted tokens are drawn in the mean, where each given
// weight stands for `share` tokens. Weights are at most 1; NaN counts as a heavy one. -inf if there
// are no more tokens than num_wanted.
float FindThreshold(const float* weights, size_t num_weights, double share, double num_wanted);

// The same as a logit, for tokens of these scores, which are overwritten.
float FindThresholdOfScores(float* scores, size_t num_scores, const kernels::LogitSpec& logit,
                            double share, double num_wanted);

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_THRESHOLD_SAMPLE_H_
