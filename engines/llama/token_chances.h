// How likely each token is to come next, by the model's logits.
//
// Units:   natural logarithms.
// Threads: pure functions.
#ifndef ATTNDB_ENGINES_LLAMA_TOKEN_CHANCES_H_
#define ATTNDB_ENGINES_LLAMA_TOKEN_CHANCES_H_

#include <cstddef>
#include <span>
#include <vector>

#include "attndb/types.h"

namespace attndb::llama {

struct TokenChance {
  TokenId token = 0;
  // A log-probability, or a probability: the function that returns it says which.
  double value = 0;
};

// A token that was chosen, and the likeliest tokens of its place, the likeliest first; of equally
// likely tokens the one with the smaller id comes first.
struct TokenChances {
  double chosen = 0;
  std::vector<TokenChance> likeliest;
};

// Returns log-probabilities: the log-softmax of the logits, which is added up in double.
// Time: one exp() for each logit. REQUIRES: `chosen` is an index of `logits`.
TokenChances LogChances(std::span<const float> logits, TokenId chosen, size_t num_likeliest);

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_TOKEN_CHANCES_H_
