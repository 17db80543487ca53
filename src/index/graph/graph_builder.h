// Internal to graph: the build of a graph from training queries.
//
// Phases:  each runs over its parts in parallel and writes only what its part owns; what one key
//          does to another's list is applied in the order of keys afterwards. So the graph depends
//          on the source and the options alone, not on threads.
// Errors:  kCancelled, kResourceExhausted.
// Threads: one thread, which calls the pool.
#ifndef ATTNDB_INDEX_GRAPH_GRAPH_BUILDER_H_
#define ATTNDB_INDEX_GRAPH_GRAPH_BUILDER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "attndb/result.h"
#include "common/aligned_buffer.h"
#include "index/graph/graph_codes.h"
#include "index/graph/graph_format.h"
#include "index/graph/graph_nearest.h"
#include "index/graph/graph_source.h"

namespace attndb::index {

// Lists of keys that grow up to a common capacity.
class NeighbourTable {
 public:
  NeighbourTable(size_t num_keys, size_t capacity)
      : capacity_(capacity), ids_(num_keys * capacity), sizes_(num_keys) {}

  size_t capacity() const { return capacity_; }
  bool full(size_t key) const { return sizes_[key] == capacity_; }
  std::span<const uint32_t> list(size_t key) const {
    return {ids_.data() + key * capacity_, sizes_[key]};
  }
  // REQUIRES: ids.size() <= capacity().
  void Assign(size_t key, std::span<const uint32_t> ids);
  // False if the list is full; true if it has `id` now.
  bool Add(size_t key, uint32_t id);

 private:
  size_t capacity_;
  std::vector<uint32_t> ids_;
  std::vector<uint8_t> sizes_;
};

// Chooses at most max_kept of `candidates` as neighbours of `key`, and orders them so: those that
// no chosen one is nearer to than `key` is, nearest first; then, as there is room, the nearest of
// the others. Reorders `candidates`.
void ChooseNeighbours(const KeyCodes& codes, uint32_t key, size_t max_kept,
                      std::vector<uint32_t>* candidates, std::vector<uint32_t>* kept);

class GraphBuilder {
 public:
  GraphBuilder(const GraphSource& source, const GraphOptions& options);

  // The bytes of the graph and its header. REQUIRES: at least one key.
  Result<AlignedBuffer> Build(GraphHeader* header);

 private:
  // A training query: a row of the source's queries or, where it has none, of its keys.
  void LoadQuery(uint32_t row, float* out) const;
  void ChooseQueries();
  void LinkCovered();
  void LinkOthers();
  void AddReverse(const std::vector<uint32_t>& others);
  void ConnectAll();
  void MarkReachable(uint32_t from, std::vector<uint8_t>* reached) const;
  Result<AlignedBuffer> Pack(GraphHeader* header) const;
  void PackRouters(const GraphHeader& header, std::byte* bytes) const;
  bool Cancelled() const {
    return options_.cancel != nullptr && options_.cancel->load(std::memory_order_relaxed);
  }

  const GraphSource& source_;
  const GraphOptions& options_;
  const size_t num_keys_;
  TurnedKeys turned_;
  KeyCodes codes_;
  bool queries_are_keys_ = false;
  std::vector<uint32_t> queries_;  // Rows.
  NearestLists nearest_;           // Of the queries.
  uint32_t entry_point_ = 0;
  NeighbourTable table_;
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_GRAPH_GRAPH_BUILDER_H_
