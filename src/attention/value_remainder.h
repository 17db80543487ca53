// Estimates the remainder, the middle tokens that a search left out, from means of values: the
// tokens of a block by their estimated weights and the mean of the block's values.
//
// Bias:    the correlation of weights and values within a block is lost. Runs without means, and
//          blocks with hidden tokens, are read from V.
// Memory:  tokens and token_scores [num_tokens of the call].
// Threads: pure function.
// Source:  block means that stand for clusters of tokens: RetroInfer (arXiv:2505.02922).
#ifndef ATTNDB_ATTENTION_VALUE_REMAINDER_H_
#define ATTNDB_ATTENTION_VALUE_REMAINDER_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "attention/call_cost.h"
#include "attention/listed_tokens.h"
#include "attndb/result.h"
#include "attndb/types.h"
#include "kernels/attention_state.h"
#include "kernels/weights.h"

namespace attndb::attention {

struct ValueRemainderCall {
  std::span<const HeadRun> runs;  // Runs with all tokens, in order.
  const float* scores = nullptr;  // Scores of all tokens; -inf where a middle token was chosen.
  TokenRange middle;
  kernels::LogitSpec logit;
  uint32_t* tokens = nullptr;
  float* token_scores = nullptr;  // One for each of `tokens`.
  storage::RowLease* rows = nullptr;
};

// Folds the remainder into `state`, which holds the chosen tokens. Returns the remainder's mass in
// units of exp(the state's max); NaN if a score is NaN.
Result<double> FoldValueRemainder(const ValueRemainderCall& call, const kernels::StateRows& state,
                                  CallCost* cost);

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_VALUE_REMAINDER_H_
