// The remainder estimated from means of values: the middle tokens that a search left out, those of
// a block by their estimated weights and the mean of the block's values.
//
// Bias:    what weights and values of a block's tokens have in common is lost. Runs without means,
//          and blocks of which the call does not see all tokens, are read from V.
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
  std::span<const HeadRun> runs;  // All tokens, in order.
  const float* scores = nullptr;  // Of all tokens; -inf where a middle token was chosen.
  TokenRange middle;
  kernels::LogitSpec logit;
  uint32_t* tokens = nullptr;
  float* token_scores = nullptr;  // As tokens.
  storage::RowLease* rows = nullptr;
};

// Folds the remainder into `state`, which holds the chosen tokens. Returns its mass over exp(the
// state's max); NaN if a score is NaN.
Result<double> FoldValueRemainder(const ValueRemainderCall& call, const kernels::StateRows& state,
                                  CallCost* cost);

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_VALUE_REMAINDER_H_
