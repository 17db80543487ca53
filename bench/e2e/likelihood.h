// How likely a model finds tokens, of its logits.
//
// Units:   nats, in float64.
// Threads: stateless.
#ifndef ATTNDB_BENCH_E2E_LIKELIHOOD_H_
#define ATTNDB_BENCH_E2E_LIKELIHOOD_H_

#include <span>

#include "attndb/types.h"

namespace attndb::bench {

// -ln of the softmax of `token`. REQUIRES: `token` is an index of `logits`.
double NegativeLogLikelihood(std::span<const float> logits, TokenId token);

// The token with the largest logit, the first of equals.
TokenId Likeliest(std::span<const float> logits);

}  // namespace attndb::bench

#endif  // ATTNDB_BENCH_E2E_LIKELIHOOD_H_
