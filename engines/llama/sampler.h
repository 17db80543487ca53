// Choosing the next token with llama.cpp's samplers.
//
// Threads: one thread.
// Errors:  kInvalidArgument naming the option that is out of its limits.
#ifndef ATTNDB_ENGINES_LLAMA_SAMPLER_H_
#define ATTNDB_ENGINES_LLAMA_SAMPLER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"
#include "engines/llama/llama_engine.h"
#include "engines/llama/llama_handles.h"
#include "engines/llama/token_chances.h"

namespace attndb::llama {

// The index of the largest value, the first of equals, as llama.cpp's greedy sampler.
// REQUIRES: !logits.empty().
TokenId ArgMax(std::span<const float> logits);
// Likewise, of all but that of `best`. REQUIRES: logits.size() >= 2.
TokenId RunnerUp(std::span<const float> logits, TokenId best);
// How far `b` lies below `a`.
double GapOf(std::span<const float> logits, TokenId a, TokenId b);

// Errors: kInvalidArgument: an id that is not in the vocabulary; a bias that is no number; no token
// of the vocabulary is left to choose.
Status CheckLogitBias(std::span<const TokenBias> biases, uint32_t vocab_size);

class TokenSampler {
 public:
  static Result<TokenSampler> Make(const SamplerOptions& options, uint32_t vocab_size);

  TokenId Sample(std::span<const float> logits);
  // Likewise, of the tokens that `is_allowed` alone. nullopt: none of them may be chosen.
  std::optional<TokenId> SampleOf(std::span<const float> logits,
                                  const std::function<bool(TokenId)>& is_allowed);

  // Returns probabilities of the last Sample, after all samplers. Tokens that these left no chance
  // are not among the likeliest. REQUIRES: Sample was called, and returned `chosen`.
  TokenChances Chances(TokenId chosen, size_t num_likeliest) const;

  // Lets the repeat penalty know a token of the text so far, sampled ones too.
  void Accept(TokenId token);

 private:
  TokenSampler() = default;

  SamplerHandle chain_;             // Null if the choice is just the largest logit.
  std::vector<TokenId> forbidden_;  // By a bias of minus infinity.
  bool draws_ = false;              // False: the token of the largest logit is sure to come.
  std::vector<llama_token_data> candidates_;
  // The part of candidates_ that the samplers of the last Sample left.
  std::span<const llama_token_data> left_;
};

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_SAMPLER_H_
