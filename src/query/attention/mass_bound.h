// A hard upper bound of the softmax mass that a search left out, as a share of the mass of all.
//
// Method:  a score that is an estimate is no further from q.k than its block's bound
//          (index::KeyEstimates::ScoreBounds), so no token left out weighs more than
//          exp(scale * (estimate + bound)): a soft cap has slope 1 at most. One pass over the
//          scores sums these weights block by block; the chosen tokens' weights are known.
// Holds:   for every q and key, not in probability, with the rounding of weights and sums in it.
//          Scores read from rows of K count as float32 gives them, which is what full attends by:
//          the rounding of those sums of products is not in it.
// Output:  with `share` the share left out and V bounded by v: |out - out of full| <= share *
//          (|out| + v), because out of full = (1 - share) * out + share * (a mean of rows of V left
//          out).
// Memory:  nothing is allocated.
// Threads: pure function; concurrent calls must not share spare or codes.
#ifndef ATTNDB_QUERY_ATTENTION_MASS_BOUND_H_
#define ATTNDB_QUERY_ATTENTION_MASS_BOUND_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "attndb/types.h"
#include "kernels/attention_state.h"
#include "query/attention/listed_tokens.h"

namespace attndb::query {

struct MassBoundCall {
  std::span<const HeadRun> runs;  // All tokens, in order.
  uint32_t bits = 0;              // That estimates were scanned at.
  const float* q = nullptr;       // [head_dim padded]
  // Of all tokens, estimates lowered by ScoreShift; -inf where a middle token was chosen.
  const float* scores = nullptr;
  TokenRange middle;                     // All others were chosen.
  std::span<const float> chosen_scores;  // Exact.
  kernels::LogitSpec logit;
  float* spare = nullptr;      // [head_dim padded], 64-byte aligned. Written, as is
  std::byte* codes = nullptr;  // ... [index::QueryCodeBytes(head_dim padded)].
};

// In [0, 1]; 1 where nothing is known. REQUIRES: some token was chosen; logit.scale > 0.
float BoundOfMassLeft(const MassBoundCall& call);

}  // namespace attndb::query

#endif  // ATTNDB_QUERY_ATTENTION_MASS_BOUND_H_
