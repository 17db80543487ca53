// What the calls of a session taught about its heads and its machine: how many rows a head's draws
// need, and how long calls took against what was predicted.
//
// Method:  exponential means of ratios observed / predicted, so that they hold while a context
//          grows. A single call that was interrupted counts at most kOutlier times as much as
//          expected. What was observed of no call of a head is taken from the other heads.
// Draws:   what samples find of their own error moves the error that the next ones aim at, so that
//          it comes out as asked, as a mean over heads and rows.
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

// A mean of ratios around 1, newer ones weighing more.
class MeanRatio {
 public:
  MeanRatio() = default;
  // As it was kept. Values out of range are brought into it.
  MeanRatio(double value, uint32_t count);

  void Add(double ratio);
  double value() const { return value_; }    // 1 before the first.
  uint32_t count() const { return count_; }  // Stays at kMaxCount.
  friend bool operator==(const MeanRatio&, const MeanRatio&) = default;

 private:
  double value_ = 1.0;
  uint32_t count_ = 0;
};

// What one call cost, per row of q.
struct HeadObservation {
  double selected = 0;     // Critical tokens per q head.
  double ns = 0;           // 0: not worth learning from.
  double error = -1;       // Estimated, of the output; negative = unknown.
  double missed = -1;      // Estimated share of the mass that an index left out; negative = none.
  double difficulty = -1;  // Of draws: error times rows, of which one falls as the other grows.
  double spread = -1;      // Of draws by codes: error over the deviation of weights.
};

struct HeadStatistics {
  MeanRatio rows;    // Rows that its draws should begin with, over those of other heads.
  MeanRatio spread;  // What its errors by codes are over the deviation of its weights' sum.
  std::array<MeanRatio, kNumMethods> time;
  double selected = -1;  // Mean; negative = unknown.
  double missed = 0;     // Share of the mass that its index leaves out: a mean of many calls.
  Method last = Method::kFull;  // What the last call preferred.
  friend bool operator==(const HeadStatistics&, const HeadStatistics&) = default;

  MeanRatio& time_of(Method of) { return time[static_cast<size_t>(of)]; }
  const MeanRatio& time_of(Method of) const { return time[static_cast<size_t>(of)]; }
};

class LearnedState {
 public:
  using Layers = std::vector<std::vector<HeadStatistics>>;  // By layer and kv head.

  // With `learns` false nothing but the error that draws aim at follows what is observed: equal
  // calls are planned alike, on every run.
  LearnedState(const ModelSpec& spec, bool learns);

  // What a call that `execution` planned cost, by kv head. Calls of several rows teach nothing.
  void Observe(LayerId layer, uint64_t num_rows, const LayerExecution& execution,
               std::span<const HeadObservation> heads);

  bool learns() const { return learns_; }
  // The head, with what others taught where it was not observed itself.
  HeadStatistics Informed(LayerId layer, uint32_t kv_head) const;
  // Calls of the layer that were observed.
  uint64_t num_calls(LayerId layer) const { return num_calls_[layer]; }
  // What draws aim at, over the error asked for.
  double aim() const { return aim_; }

  // What another session of the context learned may be put back; ignored unless it is of as many
  // layers and heads.
  const Layers& layers() const { return layers_; }
  void Restore(const Layers& layers);
  bool has_learned() const;

 private:
  void ObserveError(double error_ratio);
  void ObserveTime(HeadStatistics* head, const HeadExecution& did, const HeadObservation& seen);

  bool learns_;
  Layers layers_;
  std::vector<uint64_t> num_calls_;
  std::array<MeanRatio, kNumMethods> time_;  // Of all heads.
  // At first less than asked for: heads may be harder than those that budgets were made for.
  double aim_ = 0.7;
  double error_sum_ = 0;
  uint32_t num_errors_ = 0;
};

}  // namespace attndb::planner

#endif  // ATTNDB_PLANNER_LEARNED_STATE_H_
