// Hard upper bounds for the tokens that a search left out: their share of the softmax mass, and
// their effect on the output.
//
// Method:  an estimated score differs from q.k by at most its block's bound
//          (index::KeyEstimates::ScoreBounds). So a left-out token weighs at most exp(scale *
//          (estimate + bound)); a soft cap has slope 1 at most. An exact score has the bound 0:
//          outlier blocks have exact scores. One pass over the scores sums these weights block by
//          block; the weights of the chosen tokens are known.
// Holds:   for every q and key, not in probability, including the rounding of weights and sums.
//          Scores from rows of K are taken as float32 gives them, as in `full`: the rounding of
//          these sums of products is not included.
// Output:  out of full = (1 - share) * out + share * w, where w is the mean of the left-out rows of
//          V, by their weights. So |out - out of full| <= share * |out| + share * |w|. The last
//          term has two upper limits. One is the share times the longest row. The other is the sum
//          of each block's weights times its longest row, over the mass of the chosen tokens. Value
//          planes tell the longest row of a block, or V if there are none. The rounding of out
//          itself is not included. A denominator's weight counts as chosen, with a row of V of 0,
//          so all of this holds for the out that includes it.
// Memory:  nothing is allocated.
// Threads: pure function; concurrent calls must not share spare or codes.
#ifndef ATTNDB_ATTENTION_MASS_BOUND_H_
#define ATTNDB_ATTENTION_MASS_BOUND_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "attention/listed_tokens.h"
#include "attndb/result.h"
#include "attndb/types.h"
#include "kernels/attention_state.h"

namespace attndb::attention {

// Hard upper bounds for one row and q head; 0 where all tokens were attended to.
struct HeadBound {
  float mass = -1;  // Share of the softmax mass that was left out.
  float out = -1;   // Norm of the output's error.
};

struct MassBoundCall {
  std::span<const HeadRun> runs;  // Runs with all tokens, in order.
  // Bits that the estimates were scanned at; 0: all scores are exact.
  uint32_t bits = 0;
  const float* q = nullptr;  // [head_dim padded]
  // Scores of all tokens, estimates lowered by ScoreShift; -inf where a middle token was chosen.
  const float* scores = nullptr;
  TokenRange middle;                     // All tokens outside of it were chosen.
  std::span<const float> chosen_scores;  // Exact.
  kernels::LogitSpec logit;
  float* spare = nullptr;      // [head_dim padded], 64-byte aligned; written.
  std::byte* codes = nullptr;  // [index::QueryCodeBytes(head_dim padded)]; written.
  // The denominator logit, whose weight counts as chosen with value 0; -inf for none.
  float denominator_logit = -std::numeric_limits<float>::infinity();
  storage::RowLease* rows = nullptr;
};

struct LeftBound {
  float share = 0;  // Share of the mass, in [0, 1]; 1 where nothing is known.
  float value = 0;  // Bound of share * |w|; Inf where rows of V overflow.

  // Bound of |out - out of full|; `norm` is the norm of the out of the chosen tokens and the
  // denominator.
  float OfOutput(double norm) const;
};

// Bounds the tokens that were not chosen. Errors: those of reads. REQUIRES: some token was chosen;
// logit.scale > 0.
Result<LeftBound> BoundLeft(const MassBoundCall& call, CallCost* cost);

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_MASS_BOUND_H_
