// Selection and attention for one q head of a row whose plan leaves tokens out, from the scores of
// all tokens.
//
//   0. Static tokens of the middle, if the plan has some (static_tokens.h), are scored exactly, and
//      hidden from the following steps.
//   1. The search chooses candidates in the middle. If their scores are estimates, they are scored
//      exactly, and the search keeps the critical ones. A search by mass is audited (mass_audit.h):
//      if it may hold less than index::LeastAudited, all tokens of the middle are scored exactly,
//      and it searches again.
//   2. Sinks, static and critical tokens and window are folded into the state, with their scores.
//   3. The remainder is dropped, or estimated from a sample of its tokens (remainder.h) or from
//      value planes (value_remainder.h).
//
// A plan with exact_fallback bounds the left-out mass before step 2 (mass_bound.h). If the bound is
// too large, all tokens are attended to exactly; else the output's error is bounded.
//
// Errors:  those of reads.
// Memory:  scratch is the caller's; nothing is allocated.
// Threads: one thread a head; heads are independent.
// Source:  search, then exact attention over its result: RetrievalAttention App. B.
#ifndef ATTNDB_ATTENTION_SPARSE_HEAD_H_
#define ATTNDB_ATTENTION_SPARSE_HEAD_H_

#include <cstdint>
#include <limits>
#include <span>

#include "attention/arena.h"
#include "attention/call_cost.h"
#include "attention/listed_tokens.h"
#include "attention/mass_audit.h"
#include "attention/mass_bound.h"
#include "attention/remainder.h"
#include "attndb/result.h"
#include "attndb/types.h"
#include "index/critical_search.h"
#include "kernels/attention_state.h"
#include "planner/plan.h"

namespace attndb::attention {

struct HeadCall {
  const LayerSpec* spec = nullptr;
  const planner::LayerPlan* plan = nullptr;
  std::span<const HeadRun> runs;  // Runs with all tokens, in order.
  const float* q = nullptr;       // [head_dim padded]
  uint64_t num_tokens = 0;        // Visible tokens.
  TokenRange middle;
  // The q head's denominator logit, which the state is left without; -inf if there is none.
  float denominator_logit = -std::numeric_limits<float>::infinity();
  uint64_t seed = 0;  // Seed of the sample.
  const index::CriticalSearch* search = nullptr;
  index::ScoreView view;  // Scores of all tokens; changed.
  storage::RowLease* rows = nullptr;
  HeadBound* bound = nullptr;  // Written if the plan bounds.
};

struct HeadScratchSize {
  const planner::LayerPlan* plan = nullptr;
  const index::CriticalSearch* search = nullptr;
  uint64_t num_tokens = 0;
  size_t k_padded = 0;
};

struct HeadScratch {
  uint32_t* indices = nullptr;     // [num_tokens + slack]
  float* chosen_scores = nullptr;  // [num_tokens]
  void* select = nullptr;          // Scratch of the search.
  // If the plan has static tokens: the tokens, ascending, their scores, and a bit for each token.
  uint32_t* statics = nullptr;
  float* static_scores = nullptr;
  uint64_t* static_bits = nullptr;  // [NumStaticWords(num_tokens)]
  // If the plan bounds or the search is audited: a query prepared for one run.
  float* spare = nullptr;      // [head_dim padded]
  std::byte* codes = nullptr;  // [index::QueryCodeBytes(head_dim padded)]
  // If the plan estimates the remainder or the search is audited.
  float* drawn = nullptr;   // [num_tokens]: scores by which tokens were drawn.
  float* masses = nullptr;  // Masses of blocks.
  // If the plan estimates the remainder.
  float* weights = nullptr;  // Weights of one block.
  // If the search is audited. The audit ends before the bounds and the remainder begin, so it
  // writes to their arrays.
  MassAuditScratch audit;

  static HeadScratch Take(const HeadScratchSize& size, Arena* arena);
};

class SparseHead {
 public:
  // All pointers must outlive it.
  SparseHead(const HeadCall& call, const HeadScratch& scratch, CallCost* cost);

  // Selects tokens and attends to them: writes the state.
  Status Attend(const kernels::StateRows& state);
  // Only selects.
  Result<SelectedTokens> Select();

 private:
  kernels::LogitSpec logit() const { return {call_.spec->scale, call_.spec->soft_cap}; }
  // The weight of the state's tokens and of the denominator, in units of exp(state's max).
  double WholeSum(const kernels::StateRows& state) const;
  std::span<const uint32_t> statics() const { return {scratch_.statics, num_static_}; }
  Status HideStatic();
  size_t AddStatic(uint32_t* critical, size_t num_critical) const;
  size_t ListChosen(size_t num_middle);
  Result<size_t> FindCritical();
  Result<size_t> Choose();
  Result<size_t> ChooseCritical(uint32_t* indices);
  size_t Search(uint32_t* indices) const;
  bool HoldsMass(std::span<const uint32_t> chosen, const float* exact) const;
  Status ScoreMiddle();
  void NoteFallback();
  // Bounds the tokens that were not chosen; returns all of the mass if that is too much.
  Result<LeftBound> BoundChosen(size_t num_chosen);
  void NoteBound(const LeftBound& left, const kernels::StateRows& state);
  Status ScoreExactly(uint32_t* indices, size_t count, float* scores);
  // Folds tokens into the state. Leaves `indices` relative to their runs.
  Status Fold(uint32_t* indices, const float* scores, size_t count, const kernels::LogitSpec& logit,
              const kernels::StateRows& state);

  // sparse_head_remainder.cc
  bool EvensOut() const;
  Status AttendRemainder(size_t num_left, const kernels::StateRows& state);
  Status AttendSample(size_t num_left, const kernels::StateRows& state);
  Status AttendValues(const kernels::StateRows& state);
  Status AttendWholeRemainder(const kernels::StateRows& state);
  Status WeighSample(size_t num_drawn, float log_share);

  const HeadCall& call_;
  const HeadScratch& scratch_;
  CallCost* const cost_;
  const size_t v_padded_;
  index::SearchCall search_;
  size_t num_static_ = 0;
  bool fell_back_ = false;  // All tokens of the middle have exact scores, or were attended to.
};

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_SPARSE_HEAD_H_
