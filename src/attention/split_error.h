// What an output by a draw is off by, found from the draw itself: as it would be if either half of
// the tokens that were left to chance stood for all of them.
//
// Method:  half of the distance of the two outputs is the standard error of what both together
//          give, weights and values alike. A denominator is certain, and of value 0: what the
//          halves' weights are off by does not cancel against it.
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

// Of one q head: states of certain tokens and of either half; the logit of its denominator, -inf
// for none. Tokens are taken to have been most unlikely to be drawn.
SplitError FindSplitError(const kernels::StateRows& certain, const kernels::StateRows& even,
                          const kernels::StateRows& odd, float denominator_logit, size_t v_padded);

// By how much less the variance of such tokens is for what made them likely: the mean of 1 - p.
// A token that was almost certain says little about chance. `scratch` has room for either half.
// REQUIRES: a half has a token.
double ShareOfChance(const kernels::DrawnTokens& even, const kernels::DrawnTokens& odd,
                     float* scratch);

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_SPLIT_ERROR_H_
