// The q heads of one kv head that draw by codes (`auto`), for one row: keys are drawn by weights
// that codes give, values by those that the keys give, one sample for all heads.
//
//   1. Of each head, how its weights spread says from which weight on a token must be certain, so
//      that the draw of the lighter ones has the variance that the head may have
//      (weight_histogram.h). A token is drawn with the largest of the heads' probabilities, the
//      same for all heads, and its key is read once.
//   2. With its key's score, a token stands for its true weight over its probability: unbiased,
//      whatever the codes are off by. What they were off by is known now, and the variance that is
//      left is the second phase's: of what tokens stand for, a sample is drawn in the same way, and
//      its values are read.
//   3. The output's error is found from halves of the sample (split_error.h). A head that is off by
//      too much draws again with less variance, up to a number of times, and then reads all.
//
// Spread:  an error is a standard deviation of weights, over their sum, times how far values are
//          from the output, over that output's norm. What the latter comes to is learned
//          (planner::HeadStatistics::spread), and so what DrawBudget allows.
// Errors:  those of reads.
// Memory:  scratch is the caller's; nothing is allocated.
// Threads: one thread a group; groups are independent.
// Source:  draws in two phases: Neyman, Contribution to the theory of sampling human populations,
//          JASA 33(201), 1938. Threshold sampling: Duffield, Lund and Thorup, Learn more, sample
//          less, IEEE Trans. Inf. Theory 51(5), 2005. One sample for several weights: Cohen and
//          Kaplan, PVLDB 2(1), 2009. Weights by product codes: ours.
#ifndef ATTNDB_ATTENTION_PHASED_DRAW_H_
#define ATTNDB_ATTENTION_PHASED_DRAW_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "attention/arena.h"
#include "attention/call_cost.h"
#include "attention/drawn_sample.h"
#include "attention/listed_tokens.h"
#include "attention/weight_histogram.h"
#include "attndb/status.h"
#include "attndb/types.h"
#include "kernels/attention_state.h"
#include "kernels/draw.h"
#include "planner/plan.h"

namespace attndb::attention {

// Tokens of the middle with their weights, each the bits of a bfloat16.
struct WeighedTokens {
  TokenRange tokens;
  const uint16_t* words = nullptr;    // [group], words_stride apart: of tokens.begin and on.
  const float* references = nullptr;  // [group]: logits of weight 1.
  const float* sums = nullptr;        // [group]: of the weights.
};

struct PhasedCall {
  const LayerSpec* spec = nullptr;
  const planner::LayerPlan* plan = nullptr;
  std::span<const HeadRun> runs;  // All tokens, in order.
  GroupQueries q;                 // The group's; finite.
  TokenRange visible;
  TokenRange middle;
  std::span<const WeighedTokens> weights;  // Of the middle, in order.
  size_t words_stride = 0;
  // [group] or null: of the denominators, which the states are left without.
  const float* denominator_logits = nullptr;
  planner::DrawBudget budget;  // Of each head.
  double effort = 1;           // About so many times as many keys are read.
  uint64_t seed = 0;
  storage::RowLease* rows = nullptr;
};

// One q head of the group.
struct PhasedHead {
  float reference = 0;    // The largest logit of weight 1.
  double log_fixed = 0;   // Of sinks, window and denominator: the log of their mass.
  double log_mass = 0;    // Of all that is visible, by codes; then by what was read.
  int mass_word = 0;      // The same in words, by the reference.
  double trade = 0;       // DrawGoal::trade, of weights over their sum.
  double max_spread = 0;  // What the standard deviation of that sum may be,
  double predicted = 0;   // ... and what it is.
  double error = 0;       // Found.
  double mass_left = 0;   // Share of the mass that was left to chance.
  bool is_open = true;    // Not good enough yet.
  bool reads_all = false;
};

struct PhasedScratch {
  PhasedHead* heads = nullptr;          // [group]
  WeightHistogram* by_codes = nullptr;  // [group]: of a sample of the middle.
  WeightHistogram* by_keys = nullptr;   // Of what the head under way drew.
  uint16_t* bases = nullptr;            // [group]
  int* key_words = nullptr;             // [group]: thresholds of the first phase,
  float* thresholds = nullptr;          // ... and logits of the second.
  kernels::KeptTokens drawn;            // What the first phase drew: scores are logits.
  uint16_t* margins = nullptr;          // [num_tokens]
  float* chances = nullptr;             // [num_tokens]: logs of its probabilities,
  float* left_out = nullptr;            // ... and 1 less these.
  kernels::DrawnTokens fixed;           // Sinks and window.
  kernels::DrawnLists lists;            // What the second phase drew.
  float* weights = nullptr;             // [num_tokens]
  kernels::StateRows half_states;       // [2 * group]: of the even ones, then of the odd.

  // num_fixed: sinks and window of a call.
  static PhasedScratch Take(uint32_t group, uint64_t num_tokens, uint64_t num_fixed,
                            size_t v_padded, Arena* arena);
};

class PhasedDraw {
 public:
  // Pointers must outlive it.
  PhasedDraw(const PhasedCall& call, PhasedScratch* scratch, CallCost* cost);

  // Writes a row of each head.
  Status Attend(const kernels::StateRows& states);

 private:
  uint32_t group() const { return call_.spec->group_size(); }
  kernels::LogitSpec logit() const { return {call_.spec->scale, call_.spec->soft_cap}; }
  uint64_t num_middle() const { return call_.middle.end - call_.middle.begin; }

  SampleRead read() const;
  Status ScoreFixed(TokenRange tokens);
  void CountWeights();
  double FixedMass(uint32_t g) const;
  void FindMasses();
  void ChooseKeys();
  void DrawKeys();
  Status ScoreKeys();
  void ChooseValues();
  void DrawValues();
  Status AttendDrawn(const kernels::StateRows& states);
  void FindErrors(const kernels::StateRows& states);
  bool WantsMore();
  void Book();

  const PhasedCall& call_;
  PhasedScratch& scratch_;
  CallCost* const cost_;
  const size_t v_padded_;
  double share_ = 1;  // Tokens that each counted weight stands for.
  uint32_t round_ = 0;
};

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_PHASED_DRAW_H_
