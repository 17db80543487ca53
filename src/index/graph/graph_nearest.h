// Internal to graph: the keys of largest score of many queries, by a blocked scan of planes.
//
// Errors:  none.
// Threads: parallel inside; the result does not depend on it.
#ifndef ATTNDB_INDEX_GRAPH_GRAPH_NEAREST_H_
#define ATTNDB_INDEX_GRAPH_GRAPH_NEAREST_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "index/graph/graph_codes.h"

namespace attndb::index {

// Lists of equal length: row i at ids[i * length].
struct NearestLists {
  size_t length = 0;
  std::vector<uint32_t> ids;

  size_t num_lists() const { return length == 0 ? 0 : ids.size() / length; }
  const uint32_t* list(size_t i) const { return ids.data() + i * length; }
};

struct NearestCall {
  const ScanPlanes* planes = nullptr;
  size_t num_queries = 0;
  // Writes query i, planes->num_channels() float32.
  std::function<void(size_t i, float* row)> load;
  size_t length = 0;  // Cut to the number of rows of the planes.
  ThreadPool* pool = nullptr;
  const std::atomic<bool>* cancel = nullptr;  // Null: never.
};

// Numbers of rows of the planes, best first, of equal ones the lowest first. What is in the lists
// is meaningless once *cancel.
NearestLists FindNearest(const NearestCall& call);

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_GRAPH_GRAPH_NEAREST_H_
