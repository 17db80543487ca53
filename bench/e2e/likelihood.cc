#include "bench/e2e/likelihood.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace attndb::bench {

double NegativeLogLikelihood(std::span<const float> logits, TokenId token) {
  const auto largest = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  const double sum =
      std::accumulate(logits.begin(), logits.end(), 0.0, [largest](double partial, float logit) {
        return partial + std::exp(static_cast<double>(logit) - largest);
      });
  return largest + std::log(sum) - static_cast<double>(logits[static_cast<size_t>(token)]);
}

TokenId Likeliest(std::span<const float> logits) {
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

}  // namespace attndb::bench
