// One sample of tokens for all q heads of one kv head that draw (`auto`), for one row.
//
//   1. Each head's threshold is chosen so that the head alone would draw its allowed number of
//      tokens (threshold_sample.h), from the larger sample that the scan of all tokens kept.
//   2. A token is drawn if any head would draw it. Noise belongs to the token, and is the same for
//      all heads. So the token is drawn with the largest of the heads' probabilities, and its row
//      is read once.
//   3. Each head takes every drawn token, with its own weight over that probability. The estimate
//      is unbiased, and uses more tokens than the head would draw alone. On SmolLM2's heads, groups
//      of three, half as many rows are read for the same error.
//   4. If a head's error is too large, the group draws again with more rows. If that does not help,
//      or if most tokens would be read, the head attends to all tokens.
//
// Errors:  those of reads.
// Memory:  scratch is the caller's; nothing is allocated.
// Threads: one thread a group; groups are independent.
// Source:  threshold sampling, Duffield, Lund and Thorup (threshold_sample.h); coordinated samples
//          that serve several weights: Cohen and Kaplan, Coordinated weighted sampling for
//          estimating aggregates over multiple weight assignments, PVLDB 2(1), 2009.
#ifndef ATTNDB_ATTENTION_GROUP_DRAW_H_
#define ATTNDB_ATTENTION_GROUP_DRAW_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "attention/arena.h"
#include "attention/call_cost.h"
#include "attention/drawn_sample.h"
#include "attention/listed_tokens.h"
#include "attndb/status.h"
#include "attndb/types.h"
#include "kernels/attention_state.h"
#include "kernels/draw.h"
#include "planner/plan.h"

namespace attndb::attention {

// The tokens of a range that were kept for a draw, by low thresholds; sinks and window too.
struct DrawSlice {
  kernels::KeptTokens kept;
  TokenRange middle;  // Places in `kept` of tokens that are neither sink nor window.
};

struct GroupCall {
  const LayerSpec* spec = nullptr;
  const planner::LayerPlan* plan = nullptr;
  std::span<const HeadRun> runs;  // Runs with all tokens, in order.
  GroupQueries q;                 // Queries of the group.
  uint64_t num_tokens = 0;        // Visible tokens.
  TokenRange middle;
  // [group] or null: denominator logits. The states are left without them.
  const float* denominator_logits = nullptr;
  planner::DrawBudget budget;         // Budget of each head.
  std::span<const DrawSlice> slices;  // Slices of all ranges, in order.
  // [group]: logits of the thresholds by which the slices were kept.
  const float* thresholds = nullptr;
  storage::RowLease* rows = nullptr;
};

// The draw of one q head of the group.
struct HeadDraw {
  double rows = 0;   // Rows that it would draw alone.
  bool open = true;  // Its error is not small enough yet.
  bool reads_all = false;
  bool can_grow = true;   // Enough was kept for a larger sample.
  double error = 0;       // Estimated error.
  double difficulty = 0;  // Estimated error times the rows that it took.
  double mass_left = 0;   // Share of the mass that was left to chance.
};

struct GroupScratch {
  HeadDraw* heads = nullptr;    // [group]
  float* thresholds = nullptr;  // [group]
  // [group][kSampled]: logits of kept tokens, from which thresholds are chosen.
  float* sample = nullptr;
  float* margins = nullptr;   // [num_tokens]: margins of the kept tokens, later of the light ones.
  kernels::DrawnLists lists;  // Sinks and window are among the certain ones.
  kernels::StateRows half_states;  // [2 * group]: even tokens, then odd ones.

  static constexpr size_t kSampled = 2048;

  static GroupScratch Take(uint32_t group, uint64_t num_tokens, size_t v_padded, Arena* arena);
};

class GroupDraw {
 public:
  // All kept tokens, divided by the rows that a head may read at first: this factor more can be
  // drawn before all tokens are read.
  static constexpr double kKept = 1.5;

  // All pointers must outlive it.
  GroupDraw(const GroupCall& call, GroupScratch* scratch, CallCost* cost);

  // Attends for each head; writes its state.
  Status Attend(const kernels::StateRows& states);

 private:
  using Drawn = kernels::DrawnTokens;

  uint32_t group() const { return call_.spec->group_size(); }
  kernels::LogitSpec logit() const { return {call_.spec->scale, call_.spec->soft_cap}; }
  SampleRead read() const;
  double SampleKept(size_t* num_sampled);
  void ChooseThresholds();
  void Draw();
  void TakeFixed(const DrawSlice& slice, size_t begin, size_t end);
  Status ScoreDrawn();
  Status AttendDrawn(const kernels::StateRows& states);
  void FindErrors(const kernels::StateRows& states);
  bool WantsMore();
  void Book();

  const GroupCall& call_;
  GroupScratch& scratch_;
  CallCost* const cost_;
  const size_t v_padded_;
  float score_error_ = 0;  // The largest of the heads' score errors.
};

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_GROUP_DRAW_H_
