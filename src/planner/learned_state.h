// The lessons of a session's calls about its heads and its machine: how many rows a head's draws
// need, and how long calls took compared with their predictions.
//
// Method:  exponential means of ratios observed / predicted, which stay valid while a context
//          grows. A single call that was interrupted counts at most kOutlier times as much as
//          expected. A head without observations uses those of other heads.
// Draws:   samples estimate their own error. The error that later draws aim at follows from it, so
//          that the mean error over heads and rows is the requested one.
// Threads: one at a time.
#ifndef ATTNDB_PLANNER_LEARNED_STATE_H_
#define ATTNDB_PLANNER_LEARNED_STATE_H_

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "attndb/types.h"
#include "planner/execution.h"

namespace attndb::planner {

// A mean of ratios around 1; newer ratios weigh more.
class MeanRatio {
 public:
  MeanRatio() = default;
  // Restores an earlier mean. Values out of range are clamped.
  MeanRatio(double value, uint32_t count);

  void Add(double ratio);
  double value() const { return value_; }    // 1 before the first.
  uint32_t count() const { return count_; }  // Stays at kMaxCount.
  friend bool operator==(const MeanRatio&, const MeanRatio&) = default;

 private:
  double value_ = 1.0;
  uint32_t count_ = 0;
};

// The cost of one call for one head, per row of q.
struct HeadObservation {
  double selected = 0;  // Critical tokens per q head.
  double ns = 0;        // 0: not worth learning from.
  double error = -1;    // Estimated error of the output; negative = unknown.
  double missed = -1;   // Estimated share of the mass that an index left out; negative = none.
  // For draws: error times rows. It stays constant, because one falls as the other grows.
  double difficulty = -1;
  double spread = -1;  // For draws by codes: error over the standard deviation of the weights' sum.
};

struct HeadStatistics {
  // Rows that the head's draws should begin with, divided by the prediction for an average head.
  MeanRatio rows;
  MeanRatio spread;  // Error of its draws by codes, over the deviation of its weights' sum.
  std::array<MeanRatio, kNumMethods> time;
  double selected = -1;  // Mean of selected tokens per q head; negative = unknown.
  double missed = 0;     // Share of the mass that its index leaves out, a mean over many calls.
  Method last = Method::kFull;  // The method that the last call preferred.
  friend bool operator==(const HeadStatistics&, const HeadStatistics&) = default;

  MeanRatio& time_of(Method of) { return time[static_cast<size_t>(of)]; }
  const MeanRatio& time_of(Method of) const { return time[static_cast<size_t>(of)]; }
};

class LearnedState {
 public:
  using Layers = std::vector<std::vector<HeadStatistics>>;  // By layer and kv head.

  // If `learns` is false, only the error that draws aim at follows observations: equal calls have
  // equal plans, in every run.
  LearnedState(const ModelSpec& spec, bool learns);

  // Learns from a call that was planned as `execution`; `heads` by kv head. Calls of several rows
  // teach nothing.
  void Observe(LayerId layer, uint64_t num_rows, const LayerExecution& execution,
               std::span<const HeadObservation> heads);

  bool learns() const { return learns_; }
  // The knowledge of a head; other heads fill in what was not observed.
  HeadStatistics Informed(LayerId layer, uint32_t kv_head) const;
  // Number of the layer's calls that were observed.
  uint64_t num_calls(LayerId layer) const { return num_calls_[layer]; }
  // The error that draws aim at, divided by the requested error.
  double aim() const { return aim_; }

  // layers() may be kept, and Restored into another session of the context. Ignored unless that
  // session has as many layers and heads.
  const Layers& layers() const { return layers_; }
  void Restore(const Layers& layers);
  bool has_learned() const;

 private:
  void ObserveError(double error_ratio);
  void ObserveTime(HeadStatistics* head, const HeadExecution& did, const HeadObservation& seen);

  bool learns_;
  Layers layers_;
  std::vector<uint64_t> num_calls_;
  std::array<MeanRatio, kNumMethods> time_;  // Means over all heads.
  // At first, draws aim at less than the requested error: heads may be harder than those for which
  // budgets were chosen.
  double aim_ = 0.7;
  double error_sum_ = 0;
  uint32_t num_errors_ = 0;
};

}  // namespace attndb::planner

#endif  // ATTNDB_PLANNER_LEARNED_STATE_H_
