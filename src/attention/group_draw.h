// The q heads of one kv head that draw (`auto`), for one row: one sample of tokens for all of them.
//
//   1. Each head's threshold is chosen so that it alone would draw as many tokens as it may
//      (threshold_sample.h), from a generous sample that the scan of all tokens kept.
//   2. A token is drawn if any head would draw it; noise is the token's, the same for all heads. So
//      it is drawn with the largest of the heads' probabilities, and its row is read once.
//   3. Each head takes every drawn token, with its own weight over that probability: an unbiased
//      estimate, by more tokens than the head would draw for itself. On SmolLM2's heads, groups of
//      three, half as many rows are read for the same error.
//   4. A head that finds itself off by too much lets the group draw again with more rows. Where
//      that does not help, or most tokens would be read, the head reads all.
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

// Of a range of tokens: what a draw by low thresholds kept, sinks and window too.
struct DrawSlice {
  kernels::KeptTokens kept;
  TokenRange middle;  // Places in `kept` of what is neither sink nor window.
};

struct GroupCall {
  const LayerSpec* spec = nullptr;
  const planner::LayerPlan* plan = nullptr;
  std::span<const HeadRun> runs;  // All tokens, in order.
  GroupQueries q;                 // The group's.
  uint64_t num_tokens = 0;        // Visible.
  TokenRange middle;
  // [group] or null: of the denominators, which the states are left without.
  const float* denominator_logits = nullptr;
  planner::DrawBudget budget;         // Of each head.
  std::span<const DrawSlice> slices;  // Of all ranges, in order,
  const float* thresholds = nullptr;  // ... and the logits that they were kept by: [group].
  storage::RowLease* rows = nullptr;
};

// One q head of the group.
struct HeadDraw {
  double rows = 0;   // That it would draw alone.
  bool open = true;  // Not good enough yet.
  bool reads_all = false;
  bool can_grow = true;   // What was kept is enough for more.
  double error = 0;       // Found.
  double difficulty = 0;  // The same times the rows that it took.
  double mass_left = 0;   // Share of the mass that was left to chance.
};

struct GroupScratch {
  HeadDraw* heads = nullptr;       // [group]
  float* thresholds = nullptr;     // [group]
  float* sample = nullptr;         // [group][kSampled]: of what was kept, to choose thresholds by.
  float* margins = nullptr;        // [num_tokens]: of the sample; then of light ones.
  kernels::DrawnLists lists;       // Certain ones with sinks and window.
  kernels::StateRows half_states;  // [2 * group]: of the even ones, then of the odd.

  static constexpr size_t kSampled = 2048;

  static GroupScratch Take(uint32_t group, uint64_t num_tokens, size_t v_padded, Arena* arena);
};

class GroupDraw {
 public:
  // What all ranges keep, in rows that a head may read at first: as many times more may be drawn
  // before all is read.
  static constexpr double kKept = 1.5;

  // Pointers must outlive it.
  GroupDraw(const GroupCall& call, GroupScratch* scratch, CallCost* cost);

  // Writes a row of each head.
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
  float score_error_ = 0;  // The largest of the heads.
};

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_GROUP_DRAW_H_
