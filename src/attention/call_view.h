// A call under way, as its operators see it: its arguments, and how it is cut.
//
// Shapes:  q rows of a unit: [rows][group][head_dim padded] float32, in half layout.
// Threads: constant between Reset and the next one; a Part belongs to one thread.
#ifndef ATTNDB_ATTENTION_CALL_VIEW_H_
#define ATTNDB_ATTENTION_CALL_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "attention/call_cost.h"
#include "attention/head_run.h"
#include "attention/layer_call.h"
#include "attention/work_plan.h"
#include "kernels/attention_state.h"

namespace attndb::attention {

// The memory of one thread for a call, whichever operators it runs.
struct Part {
  uint32_t number = 0;  // < CallView::num_parts().
  // q of the unit under way, [rows of a unit * group][head_dim padded]; then the same after each of
  // the call's rotations.
  float* q = nullptr;
  float* spare = nullptr;            // Like q, without rotations.
  kernels::StateRows states;         // [rows of a unit * group]
  storage::RowLease rows;            // Rows of the phase under way.
  CallCost cost;                     // Cost of the item under way.
  std::vector<CallCost> head_costs;  // Cost of the items before it, by kv head.
};

class CallView {
 public:
  // Items of one thread that may be under way at once, where it waits for rows
  // (storage::OtherWork): one runs, the others are parked.
  static constexpr uint32_t kMaxDepth = 4;

  // Describes a new call; keeps the vectors' memory. REQUIRES: views checked.
  void Reset(const LayerCall& call, const WorkCut& cut);

  const LayerCall& call() const { return call_; }
  const LayerSpec& spec() const { return call_.spec; }
  const planner::LayerPlan& plan() const { return call_.plan; }
  const WorkPlan& work() const { return work_; }
  const WorkUnit& unit(size_t i) const { return work_.units[i]; }
  // Whether units have several ranges, so that all parts share the results of ranges.
  bool is_shared() const { return work_.num_ranges_max > 1; }
  uint32_t group() const { return call_.spec.group_size(); }
  // q rows of a unit, at most.
  size_t rows_max() const { return work_.rows_per_unit_max * group(); }
  // Elements of q of a unit, at most.
  size_t q_elements_max() const { return rows_max() * k_padded_; }
  // The call's parts, and for each of them the ones that run while it is parked.
  uint32_t num_parts() const;
  size_t num_runs() const { return call_.parts.size(); }
  size_t k_padded() const { return k_padded_; }
  size_t v_padded() const { return v_padded_; }

  // The runs of a kv head, which hold all tokens in order.
  std::span<const HeadRun> HeadRuns(uint32_t kv_head) const {
    return std::span(head_runs_).subspan(kv_head * num_runs(), num_runs());
  }
  uint64_t TokenOfRow(uint64_t row) const { return first_row_token_ + row; }
  // The visible tokens of a row, and those among them that are neither sink nor window.
  TokenRange Visible(uint64_t row) const;
  TokenRange Middle(uint64_t row) const;
  // The head's denominator logit; -inf, which weighs nothing, if the layer has none.
  float DenominatorLogit(uint32_t q_head) const;

  // Fills part->q with the unit's rows, as they are and turned.
  void LoadQueries(const WorkUnit& unit, Part* part) const;
  // For q heads [first, first + count) of the group and each row of the unit: adds denominators,
  // finishes the states and writes out and lse. The finished rows overwrite the states.
  void WriteHeads(const WorkUnit& unit, uint32_t first, uint32_t count,
                  const kernels::StateRows& states, Part* part) const;

 private:
  void ListHeadRuns();
  const index::KeyEstimates* EstimatesOf(size_t i) const;

  LayerCall call_;
  WorkPlan work_;
  uint64_t first_row_token_ = 0;
  size_t k_padded_ = 0;
  size_t v_padded_ = 0;
  std::vector<HeadRun> head_runs_;  // [kv head][run]
};

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_CALL_VIEW_H_
