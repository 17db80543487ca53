// What the heads of a model weighed: the softmax of the newest token's query over all tokens, from
// the keys that its session holds, and what the session's plan selected of them.
//
// Shapes:  q [num_q_heads, head_dim], as the engine gave it to attention (LlamaEngine's OnQueries).
// Units:   weights are shares of a head's softmax, denominator logits included: a layer with
//          these, or a list that is cut, adds up to less than 1.
// Cost:    reads all keys of the layer; time and memory grow with tokens times q heads.
// Threads: stateless; a session belongs to one thread at a time.
#ifndef ATTNDB_SERVER_EXPLAIN_TOKEN_WEIGHTS_H_
#define ATTNDB_SERVER_EXPLAIN_TOKEN_WEIGHTS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "attndb/result.h"
#include "attndb/session.h"

namespace attndb::server {

struct HeadWeights {
  std::vector<uint32_t> tokens;  // The heaviest first.
  std::vector<float> weights;    // Theirs.
  // What the plan selected between sink and window; none: it does not search (full, window, auto).
  std::optional<uint64_t> num_critical;
  std::vector<uint32_t> critical;  // Those of `tokens` among these.
};

// One for each q head of the layer, of `num_listed` tokens at most, for the session's newest token.
// Errors: kUnsupported (tokens have left the session, so that keys stand elsewhere; NaN or Inf);
//         those of Session::ReadKv and Search.
// REQUIRES: the session holds a token.
Result<std::vector<HeadWeights>> WeighTokens(LayerId layer, std::span<const float> q,
                                             size_t num_listed, Session* session);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_EXPLAIN_TOKEN_WEIGHTS_H_
