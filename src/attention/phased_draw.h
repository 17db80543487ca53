// One sample for the q heads of one kv head that draw by codes (`auto`), for one row. Keys are
// drawn by the weights of codes, and values by the weights of these keys.
//
//   1. For each head, the spread of its weights tells the least weight of a certain token, so that
//      the draw of lighter tokens has the variance that the head may have (weight_histogram.h). A
//      token is drawn with the largest of the heads' probabilities, which is the same for all
//      heads, and its key is read once.
//   2. With its key's score, a token counts with its true weight over its probability. That is
//      unbiased, whatever the codes' errors are. These errors are known now, and the remaining
//      variance belongs to the second phase: a sample of the tokens is drawn in the same way, by
//      that quotient, and its values are read.
//   3. The output's error is estimated from halves of the sample (split_error.h). A head with too
//      large an error draws again with less variance, up to a number of times, and then attends to
//      all tokens.
//
// Spread:  the output's error is the standard deviation of weights over their sum, times the
//          distance of values from the output over the output's norm. The second factor is learned
//          (planner::HeadStatistics::spread), and gives the values of DrawBudget.
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

// Tokens of the middle with their weights, as the bits of bfloat16.
struct WeighedTokens {
  TokenRange tokens;
  const uint16_t* words = nullptr;    // [group], words_stride apart, from tokens.begin on.
  const float* references = nullptr;  // [group]: logits of weight 1.
  const float* sums = nullptr;        // [group]: sums of the weights.
};

struct PhasedCall {
  const LayerSpec* spec = nullptr;
  const planner::LayerPlan* plan = nullptr;
  std::span<const HeadRun> runs;  // Runs with all tokens, in order.
  GroupQueries q;                 // Queries of the group; finite.
  TokenRange visible;
  TokenRange middle;
  std::span<const WeighedTokens> weights;  // Weights of the middle, in order.
  size_t words_stride = 0;
  // [group] or null: denominator logits. The states are left without them.
  const float* denominator_logits = nullptr;
  planner::DrawBudget budget;  // Budget of each head.
  double effort = 1;           // How many times as many keys are read, about.
  uint64_t seed = 0;
  storage::RowLease* rows = nullptr;
};

// The draw of one q head of the group.
struct PhasedHead {
  float reference = 0;    // The largest logit of weight 1 of all runs.
  double log_fixed = 0;   // Log of the mass of sinks, window and denominator.
  double log_mass = 0;    // Log of the mass of all visible tokens: by codes, later by read keys.
  int mass_word = 0;      // log_mass in words, relative to the reference.
  double trade = 0;       // DrawGoal::trade, for weights over their sum.
  double max_spread = 0;  // The standard deviation of that sum that is allowed.
  double predicted = 0;   // The predicted standard deviation.
  double error = 0;       // Estimated error.
  double mass_left = 0;   // Share of the mass that was left to chance.
  bool is_open = true;    // Its error is not small enough yet.
  bool reads_all = false;
};

struct PhasedScratch {
  PhasedHead* heads = nullptr;          // [group]
  WeightHistogram* by_codes = nullptr;  // [group]: weights of a sample of the middle.
  WeightHistogram* by_keys = nullptr;   // Weights that the head under way drew.
  uint16_t* bases = nullptr;            // [group]
  int* key_words = nullptr;             // [group]: thresholds of the first phase.
  float* thresholds = nullptr;          // [group]: logits of the thresholds of the second phase.
  kernels::KeptTokens drawn;            // The tokens of the first phase; their scores are logits.
  uint16_t* margins = nullptr;          // [num_tokens]
  float* chances = nullptr;             // [num_tokens]: logs of the tokens' probabilities.
  float* left_out = nullptr;            // [num_tokens]: 1 minus these probabilities.
  kernels::DrawnTokens fixed;           // Sinks and window.
  kernels::DrawnLists lists;            // The tokens of the second phase.
  float* weights = nullptr;             // [num_tokens]
  kernels::StateRows half_states;       // [2 * group]: even tokens, then odd ones.

  // num_fixed: sinks and window of a call.
  static PhasedScratch Take(uint32_t group, uint64_t num_tokens, uint64_t num_fixed,
                            size_t v_padded, Arena* arena);
};

class PhasedDraw {
 public:
  // All pointers must outlive it.
  PhasedDraw(const PhasedCall& call, PhasedScratch* scratch, CallCost* cost);

  // Attends for each head; writes its state.
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
