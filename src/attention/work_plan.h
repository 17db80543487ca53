// Cuts one Attend into items of work: a pure function of its sizes, so that results do not depend
// on which thread does what.
//
// A unit is a set of q rows of one kv head that are finished together. Its tokens may be cut into
// ranges; (unit, range) is an item. The thread that finishes the last item of a unit merges the
// results of its ranges, in order: no thread ever waits for another.
//
// Threads: values and pure functions.
#ifndef ATTNDB_ATTENTION_WORK_PLAN_H_
#define ATTNDB_ATTENTION_WORK_PLAN_H_

#include <cstdint>
#include <vector>

#include "attndb/types.h"

namespace attndb::attention {

// How an operator's calls are to be cut.
struct WorkCut {
  bool by_row = false;  // Each row chooses its tokens itself: a sparse plan.
  bool uncut = false;   // A unit is not cut into ranges.
};

struct WorkSizes {
  uint32_t num_kv_heads = 0;
  uint32_t group_size = 0;
  uint64_t num_rows = 0;    // Rows of q: the newest tokens.
  uint64_t num_tokens = 0;  // Tokens up to and including the newest row's.
  uint64_t window = 0;      // Token i sees (i - window, i]; 0 = all tokens up to i.
  WorkCut cut;
  uint32_t num_parts = 1;
};

struct WorkUnit {
  uint32_t kv_head = 0;
  uint64_t first_row = 0;
  uint64_t num_rows = 0;
  TokenRange tokens;  // Tokens that any of its rows sees.
  uint32_t num_ranges = 1;

  // Tokens of range `range`: equal shares of kRangeMultiple tokens; the last ones may be empty.
  TokenRange Range(uint32_t range) const;
};

struct WorkItem {
  uint32_t unit = 0;
  uint32_t range = 0;
};

struct WorkPlan {
  std::vector<WorkUnit> units;
  // Items in the order of execution: longest units first. For units of equal length, all first
  // ranges come first, so that a first range's result for its unit exists when the others begin.
  // Then one unit follows another, so that some are finished while others are still read. The last
  // units, one for each part, come side by side, so that they are finished at the same time.
  std::vector<WorkItem> items;
  uint64_t rows_per_unit_max = 0;
  uint32_t num_ranges_max = 0;

  // Makes the plan for `sizes`, keeping the vectors' memory.
  // REQUIRES: 1 <= num_rows <= num_tokens; num_parts >= 1.
  void Reset(const WorkSizes& sizes);
};

inline constexpr uint64_t kRangeMultiple = 64;

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_WORK_PLAN_H_
