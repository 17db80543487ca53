// What was seen of one kv head of a layer: how many rows its searches read, and how long calls took
// against what was predicted. The next prediction is multiplied by it.
//
// Method:  exponential means of ratios observed / predicted, so that they hold while a context
//          grows. A single call that was interrupted counts at most kOutlier times as much as
//          expected.
// Threads: values.
#ifndef ATTNDB_PLANNER_HEAD_STATISTICS_H_
#define ATTNDB_PLANNER_HEAD_STATISTICS_H_

#include <cstdint>

#include "planner/cost_model.h"

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
  double selected = 0;  // Critical tokens per q head.
  double bytes = 0;
  double ns = 0;
  double error = -1;       // Estimated, of the output; negative = unknown.
  double missed = -1;      // Estimated share of the mass that an index left out; negative = none.
  double mass_left = -1;   // Estimated share of the mass that was left out; negative = unknown.
  double difficulty = -1;  // Of draws: error times rows, of which one falls as the other grows.
};

struct HeadStatistics {
  MeanRatio rows;         // Rows that its draws should begin with, over those of other heads.
  MeanRatio sparse_time;  // Of calls that chose from the scores of all,
  MeanRatio index_time;   // ... that drew by an index,
  MeanRatio full_time;    // ... and that read all.
  double selected = -1;   // Means; negative = unknown.
  double error = -1;
  double mass_left = -1;
  bool prefers_full = false;  // What the last decision by cost was.
  uint32_t retry_in = 0;      // Calls until it is tried again, if it prefers full,
  uint32_t num_trials = 0;    // ... as it was so often since it does.
  // The same of scores of all keys, instead of an index.
  bool prefers_index = false;
  uint32_t index_retry_in = 0;
  uint32_t num_index_trials = 0;
  double missed = 0;  // Share of the mass that its index leaves out: a mean of many calls.

  const MeanRatio& TimeOf(bool by_index) const { return by_index ? index_time : sparse_time; }
  MeanRatio& TimeOf(bool by_index) { return by_index ? index_time : sparse_time; }

  // `predicted`: without the correction for time.
  void ObserveSparse(const HeadObservation& seen, const Cost& predicted, bool by_index);
  // A draw of `rows_expected` rows, as of any head, for that error. A head's rows should be as the
  // root of its difficulty: then one row more makes every head's error less by as much, which is
  // the least error for so many rows.
  void ObserveDraw(double difficulty, double rows_expected, double aimed_error);
  void ObserveFull(const HeadObservation& seen, const Cost& predicted);
  friend bool operator==(const HeadStatistics&, const HeadStatistics&) = default;
};

}  // namespace attndb::planner

#endif  // ATTNDB_PLANNER_HEAD_STATISTICS_H_
