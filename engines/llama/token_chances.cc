#include "engines/llama/token_chances.h"

#include <algorithm>
#include <cmath>

namespace attndb::llama {
namespace {

// log(sum(exp(logit - largest))): no exp() of these overflows.
double LogSumExp(std::span<const float> logits, double largest) {
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  return std::log(sum);
}

// Ids of the largest logits in order.
std::vector<TokenId> Largest(std::span<const float> logits, size_t count) {
  std::vector<TokenId> largest;
  if (count == 0) return largest;
  const auto is_before = [logits](TokenId a, TokenId b) {
    const float logit_a = logits[static_cast<size_t>(a)];
    const float logit_b = logits[static_cast<size_t>(b)];
    return logit_a != logit_b ? logit_a > logit_b : a < b;
  };
  // Few logits are larger than the smallest of the largest so far: most cost one comparison.
  for (size_t i = 0; i < logits.size(); ++i) {
    const auto token = static_cast<TokenId>(i);
    if (largest.size() == count) {
      if (!is_before(token, largest.back())) continue;
      largest.pop_back();
    }
    largest.insert(std::ranges::upper_bound(largest, token, is_before), token);
  }
  return largest;
}

}  // namespace

TokenChances LogChances(std::span<const float> logits, TokenId chosen, size_t num_likeliest) {
  const double largest = *std::ranges::max_element(logits);
  const double log_sum = LogSumExp(logits, largest);
  const auto chance = [&](TokenId token) {
    return (logits[static_cast<size_t>(token)] - largest) - log_sum;
  };
  TokenChances chances;
  chances.chosen = chance(chosen);
  for (const TokenId token : Largest(logits, num_likeliest)) {
    chances.likeliest.push_back({token, chance(token)});
  }
  return chances;
}

}  // namespace attndb::llama
