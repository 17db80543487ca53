// Draws a sample of the remainder, the middle tokens that a search left out, to estimate these
// instead of dropping them.
//
// Method:  systematic sampling in proportion to weight: the tokens' weights laid end to end in
//          token order, one random offset, then a point every total / num_samples. Each drawn token
//          stands for an equal share of the remainder's mass, so the estimate of its attention
//          output is unbiased, and its mass is exact, as far as the scores are.
// Memory:  masses [blocks of the middle], weights [kWeightBlock], indices [num_samples].
// Threads: pure function.
// Source:  systematic sampling, Madow 1949, doi:10.1214/aoms/1177730031. Weighting the remainder by
//          its own quantized logits is ours; vAttention (arXiv:2510.05688) samples it uniformly.
#ifndef ATTNDB_ATTENTION_REMAINDER_H_
#define ATTNDB_ATTENTION_REMAINDER_H_

#include <cstddef>
#include <cstdint>

#include "attndb/types.h"
#include "index/score_view.h"
#include "kernels/attention_state.h"

namespace attndb::attention {

struct RemainderCall {
  index::ScoreView view;  // Scores of all tokens; -inf where one was selected.
  TokenRange middle;
  kernels::LogitSpec logit;
  float max = 0.0f;         // Weights are exp(logit - max).
  float* masses = nullptr;  // Written by RemainderMass, read by DrawRemainder.
  float* weights = nullptr;
};

// The sum of the remainder's weights; NaN if one is NaN.
double RemainderMass(const RemainderCall& call);

struct RemainderDraw {
  double mass = 0.0;         // The result of RemainderMass. REQUIRES: > 0.
  uint32_t num_samples = 0;  // REQUIRES: > 0.
  double offset = 0.0;       // Random, in [0, 1).
};

// Writes num_samples tokens, ascending, to `indices`; a token that weighs more than one share comes
// several times.
void DrawRemainder(const RemainderCall& call, const RemainderDraw& draw, uint32_t* indices);

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_REMAINDER_H_
