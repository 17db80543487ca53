// The remainder estimated from value planes: the middle tokens that a search left out, each by its
// estimated weight, their values by codes where a block's mass is worth a read of them, and by the
// block's mean elsewhere.
//
// Bias:    a block read by its mean loses what weights and values of its tokens have in common;
//          such blocks hold at most kLightShare of the remainder's mass together, or all of it with
//          planes of 0 bits (means alone). Codes are off by a share of a value's deviation from
//          the mean of its block that evens out over tokens: 34 % at 2 bits, 11 % at 4, 2 % at most
//          at 8. Runs without value planes are read from V.
// Memory:  masses [NumMasses], weights [kWeightBlock], tokens [num_tokens of the call].
// Threads: pure function.
// Source:  weighting quantized values of the remainder by its own quantized logits: ours. Block
//          means that stand for clusters of tokens: RetroInfer (arXiv:2505.02922).
#ifndef ATTNDB_QUERY_ATTENTION_VALUE_REMAINDER_H_
#define ATTNDB_QUERY_ATTENTION_VALUE_REMAINDER_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "attndb/types.h"
#include "kernels/attention_state.h"
#include "kernels/weights.h"
#include "query/attention/call_cost.h"
#include "query/attention/listed_tokens.h"

namespace attndb::query {

// A block that weighs less than this share of the mean block is read by its mean.
inline constexpr double kLightShare = 0.125;

struct ValueRemainderCall {
  std::span<const HeadRun> runs;  // All tokens, in order.
  const float* scores = nullptr;  // Of all tokens; -inf where a middle token was chosen.
  TokenRange middle;
  kernels::LogitSpec logit;
  float* masses = nullptr;
  float* weights = nullptr;
  uint32_t* tokens = nullptr;
  float* token_scores = nullptr;  // As tokens.
};

// Blocks that a call of so many tokens and runs may have.
constexpr size_t NumMasses(uint64_t num_tokens, size_t num_runs) {
  return kernels::NumWeightBlocks(num_tokens) + 2 * num_runs;
}

// Folds the remainder into `state`, which holds the chosen tokens. Returns its mass over exp(the
// state's max); NaN if a score is NaN.
double FoldValueRemainder(const ValueRemainderCall& call, const kernels::StateRows& state,
                          CallCost* cost);

}  // namespace attndb::query

#endif  // ATTNDB_QUERY_ATTENTION_VALUE_REMAINDER_H_
