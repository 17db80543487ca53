// Hard upper bounds of what a search left out: its share of the softmax mass, and what that may
// have done to the output.
//
// Method:  a score that is an estimate is no further from q.k than its block's bound
//          (index::KeyEstimates::ScoreBounds), so no token left out weighs more than
//          exp(scale * (estimate + bound)): a soft cap has slope 1 at most. One pass over the
//          scores sums these weights block by block; the chosen tokens' weights are known.
// Holds:   for every q and key, not in probability, with the rounding of weights and sums in it.
//          Scores read from rows of K count as float32 gives them, which is what full attends by:
//          the rounding of those sums of products is not in it.
// Output:  out of full = (1 - share) * out + share * w, w a mean of the rows of V left out, by
//          their weights. So |out - out of full| <= share * |out| + share * |w|, and the last term
//          is at most the share times the longest row, and at most the sum of each block's weights
//          times its longest row, over the mass of the chosen. Rows are as long as their block's
//          value planes say, or as V is where there are none. The rounding by which out itself was
//          summed is not in it. A denominator's weight is one of the chosen, its row of V 0: all
//          of this holds with it, and for the out that has it.
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

// Hard upper bounds of a row of a q head; 0 where all was attended to.
struct HeadBound {
  float mass = -1;  // Share of the softmax mass that is left out.
  float out = -1;   // Norm of what the output is off by.
};

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
  // Of a weight of value 0 that is no token's and counts as chosen; -inf for none.
  float denominator_logit = -std::numeric_limits<float>::infinity();
  storage::RowLease* rows = nullptr;
};

struct LeftBound {
  float share = 0;  // Of the mass, in [0, 1]; 1 where nothing is known.
  float value = 0;  // Of share * |w|; Inf where rows of V overflow.

  // Of |out - out of full|, by the norm of the out that the chosen tokens and the denominator gave.
  float OfOutput(double norm) const;
};

// Errors: those of reads. REQUIRES: some token was chosen; logit.scale > 0.
Result<LeftBound> BoundLeft(const MassBoundCall& call, CallCost* cost);

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_MASS_BOUND_H_
