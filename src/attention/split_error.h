// Estimates the error of an output by a draw from the draw itself: as if either half of the tokens
// that were left to chance stood for all of them.
//
// Method:  half of the distance of the two outputs is the standard error of the output of both
//          halves together, from weights and values alike. A denominator is certain and has value
//          0: errors of the halves' weights do not cancel against it.
// Threads: pure functions.
// Source:  the random group estimator of variance: Wolter, Introduction to Variance Estimation, 2.
#ifndef ATTNDB_ATTENTION_SPLIT_ERROR_H_
#define ATTNDB_ATTENTION_SPLIT_ERROR_H_

#include <cstddef>

#include "kernels/attention_state.h"
#include "kernels/draw.h"

namespace attndb::attention {

struct SplitError {
  double error = 0;      // Relative to the norm of the output.
  double mass_left = 0;  // Share of the mass that was left to chance.
};

// Estimates for one q head, from the states of certain tokens and of either half; denominator_logit
// -inf for none. Assumes that the drawn tokens were very unlikely to be drawn.
SplitError FindSplitError(const kernels::StateRows& certain, const kernels::StateRows& even,
                          const kernels::StateRows& odd, float denominator_logit, size_t v_padded);

// By which factor the variance is smaller because tokens were likely to be drawn: the mean of 1 -
// p, as a token that was almost certain tells little about chance. `scratch` has room for either
// half. REQUIRES: a half has a token.
double ShareOfChance(const kernels::DrawnTokens& even, const kernels::DrawnTokens& odd,
                     float* scratch);

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_SPLIT_ERROR_H_
