// Audits a search by mass over estimates: how much of the softmax mass the tokens that it left out
// may weigh, given how far the estimates of their blocks may be off.
//
// Method:  chosen tokens have exact scores. The error of an estimate is q times the part of the key
//          that its codes omit. Rotation makes this error nearly normal. Its standard deviation e
//          is at most the hard bound of the block (index::KeyEstimates::ScoreBounds) divided by
//          sqrt(num_channels), because the bound assumes that q is parallel to the longest omitted
//          part. At 4 bits, e is 0.61 of that: the bound assumes the largest rounding error of each
//          code, the deviation a mean one. The mean of exp(scale * x) over a normal x of deviation
//          e is exp((scale * e)^2 / 2). The audit raises the estimated mass of a block by the
//          square of that, because few tokens may hold the rest, and undoes its ScoreShift.
// Holds:   in the mean over rotations, not for every q and key: mass_bound.h has hard bounds, which
//          are eight times as wide in nats at 64 channels.
// Cost:    a few operations for each block of 64 tokens and for each chosen token; no row is read.
// Memory:  the caller's scratch; nothing is allocated.
// Threads: pure function; concurrent calls must not share scratch.
#ifndef ATTNDB_ATTENTION_MASS_AUDIT_H_
#define ATTNDB_ATTENTION_MASS_AUDIT_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "attention/head_run.h"
#include "attndb/types.h"
#include "index/score_view.h"
#include "kernels/attention_state.h"

namespace attndb::attention {

// Not owned.
struct MassAuditScratch {
  float* spare = nullptr;      // [head_dim padded], 64-byte aligned.
  std::byte* codes = nullptr;  // [index::QueryCodeBytes(head_dim padded)]
  float* masses = nullptr;     // [blocks of the tokens]
  float* lifts = nullptr;      // [blocks of the tokens]
  float* weights = nullptr;    // [num_tokens]
};

struct MassAuditCall {
  std::span<const HeadRun> runs;  // Runs with all tokens, in order.
  uint32_t bits = 0;              // Bits that the estimates were scanned at.
  const float* q = nullptr;       // [head_dim padded]
  // Scores of all tokens, with sums: of the middle estimates lowered by ScoreShift where a run has
  // estimates, and exact ones elsewhere. Chosen tokens still have their estimates.
  index::ScoreView view;
  TokenRange middle;                 // All tokens outside of it are attended to.
  std::span<const uint32_t> chosen;  // Tokens of the middle.
  const float* exact = nullptr;      // [chosen]: their exact scores.
  kernels::LogitSpec logit;
  // The logit of the weight of no token of the view, which is held in any case; -inf for none.
  float denominator_logit = -std::numeric_limits<float>::infinity();
};

// The share of the mass that is left out, raised as above; 1 where nothing is known.
double AuditLeftShare(const MassAuditCall& call, const MassAuditScratch& scratch);

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_MASS_AUDIT_H_
