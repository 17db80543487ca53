// Internal to graph: the rows of largest score of many queries, by exact scores of all rows.
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
  const std::atomic<bool>* cancel = nullptr;  // Null: never.
};

// Numbers of rows, best first, of equal ones the lowest first. Memory: a float32 of each row for
// every query of those that are scored at once, eight a thread. What is in the lists is meaningless
// once *cancel.
NearestLists FindExactNearest(const ExactNearestCall& call);

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_GRAPH_EXACT_NEAREST_H_
