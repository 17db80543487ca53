// Internal to graph: finds the keys of largest score of many queries, by a scan of planes in
// blocks.
//
// Errors:  none.
// Threads: parallel inside; the result does not depend on it.
#ifndef ATTNDB_INDEX_GRAPH_GRAPH_NEAREST_H_
#define ATTNDB_INDEX_GRAPH_GRAPH_NEAREST_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "index/graph/graph_codes.h"
#include "index/graph/graph_slots.h"

namespace attndb::index {

// Lists of equal length: row i begins at ids[i * length], and a shorter list ends with kNoKey.
struct NearestLists {
  size_t length = 0;
  std::vector<uint32_t> ids;

  size_t num_lists() const { return length == 0 ? 0 : ids.size() / length; }
  std::span<const uint32_t> list(size_t i) const {
    const std::span<const uint32_t> all(ids.data() + i * length, length);
    size_t count = length;
    while (count > 0 && all[count - 1] == kNoKey) --count;
    return all.first(count);
  }
};

struct NearestCall {
  const ScanPlanes* planes = nullptr;
  size_t num_queries = 0;
  // Writes query i, planes->num_channels() float32.
  std::function<void(size_t i, float* row)> load;
  // How many of the first rows query i may find. Null: all.
  std::function<size_t(size_t i)> limit;
  size_t length = 0;  // Cut to the number of rows of the planes.
  ThreadPool* pool = nullptr;
  const std::atomic<bool>* cancel = nullptr;  // Null: can't be cancelled.
};

// Lists numbers of rows of the planes, best first; of equal scores the lowest number first. Once
// *cancel is set the lists are meaningless.
NearestLists FindNearest(const NearestCall& call);

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_GRAPH_GRAPH_NEAREST_H_
