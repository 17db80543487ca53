// Internal to graph: finds, for many queries, the rows of largest score, by exact scores of all
// rows.
//
// Errors:  none. Scores that are NaN count as the least.
// Threads: parallel inside; the result does not depend on it. It may depend on the instruction set,
//          whose sums are rounded in another order.
#ifndef ATTNDB_INDEX_GRAPH_EXACT_NEAREST_H_
#define ATTNDB_INDEX_GRAPH_EXACT_NEAREST_H_

#include <atomic>
#include <cstddef>
#include <functional>

#include "common/thread_pool.h"
#include "index/graph/graph_nearest.h"
#include "kernels/layout.h"

namespace attndb::index {

struct ExactNearestCall {
  kernels::RowsView rows;
  size_t num_rows = 0;
  size_t num_queries = 0;
  std::function<void(size_t i, float* row)> load;  // Writes query i, rows.num_elements float32.
  size_t length = 0;                               // Cut to num_rows.
  ThreadPool* pool = nullptr;
  const std::atomic<bool>* cancel = nullptr;  // Null: can't be cancelled.
};

// Lists numbers of rows, best first; of equal scores the lowest number first. Memory: a float32 of
// each row for every query that is scored at the same time, eight per thread. Once *cancel is set
// the lists are meaningless.
NearestLists FindExactNearest(const ExactNearestCall& call);

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_GRAPH_EXACT_NEAREST_H_
