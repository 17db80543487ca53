// Internal to graph: the lists of neighbours of a graph that is being built.
//
// Errors:  Pack: kResourceExhausted.
// Threads: lists of different keys may be assigned at the same time; all else is one thread's.
#ifndef ATTNDB_INDEX_GRAPH_NEIGHBOUR_TABLE_H_
#define ATTNDB_INDEX_GRAPH_NEIGHBOUR_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "attndb/result.h"
#include "common/aligned_buffer.h"
#include "index/graph/graph_format.h"

namespace attndb::index {

// Lists of neighbours that grow up to a common capacity.
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
  // Appends `id` unless it is there. False if the list is full and lacks it.
  bool Add(size_t key, uint32_t id);
  // Replaces the last neighbour of `key` by `id`, and puts that neighbour into the list of `id`, if
  // need be in place of its last: `key` still leads to all that it led to. REQUIRES: the list of
  // `key` is full and lacks `id`.
  void Insert(size_t key, uint32_t id);

  // Makes every key reachable from `entry_point`: a key that is not becomes a neighbour of one of
  // its own neighbours or, where their lists are full, of the next key before or after it that has
  // room.
  void ConnectAll(uint32_t entry_point);

  // The bytes of a graph with these lists; its routers are zero. REQUIRES: no list is longer than a
  // slot of the header.
  Result<AlignedBuffer> Pack(const GraphHeader& header) const;

 private:
  void MarkReachable(uint32_t from, std::vector<uint8_t>* reached) const;

  size_t capacity_;
  std::vector<uint32_t> ids_;
  std::vector<uint8_t> sizes_;
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_GRAPH_NEIGHBOUR_TABLE_H_
