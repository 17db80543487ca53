// Internal to graph: chooses the neighbours of a key.
//
// Errors:  none.
// Threads: thread-compatible: each thread has objects of its own.
#ifndef ATTNDB_INDEX_GRAPH_GRAPH_NEIGHBOURS_H_
#define ATTNDB_INDEX_GRAPH_GRAPH_NEIGHBOURS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "index/graph/graph_codes.h"
#include "index/graph/graph_nearest.h"

namespace attndb::index {

// Limit on the lists by which a key is linked.
inline constexpr size_t kMostLists = 64;

// Counts how often keys stand in the same list as a given key.
class ListCompanions {
 public:
  explicit ListCompanions(size_t num_keys) : counts_(num_keys) {}

  // At most 200 keys that stand in most of `lists`, without `key` itself; of equal counts the
  // first. REQUIRES: at most kMostLists lists.
  void Find(const NearestLists& nearest, std::span<const uint32_t> lists, uint32_t key,
            std::vector<uint32_t>* found);

 private:
  void KeepMostCounted(size_t num_kept, std::vector<uint32_t>* found);

  std::vector<uint8_t> counts_;
  std::array<size_t, kMostLists + 1> of_count_ = {};  // [count]: number of keys with that count.
};

class NeighbourChooser {
 public:
  explicit NeighbourChooser(const KeyCodes* codes) : codes_(codes) {}

  // Chooses at most max_kept of `candidates` as neighbours of `key`: nearest first, a candidate
  // that no chosen one is nearer to than `key` is; then, if there is room, the nearest of the
  // others. Of equal distances the lowest id first. Valid until the next call. REQUIRES: `key` is
  // no candidate.
  const std::vector<uint32_t>& Choose(uint32_t key, size_t max_kept,
                                      std::span<const uint32_t> candidates);

 private:
  void Rank(uint32_t key, std::span<const uint32_t> candidates);
  // Removes the open candidates that the first open one hides.
  void HideBehindFirst();

  const KeyCodes* const codes_;
  std::vector<uint64_t> ranked_;     // Distance from the key and id in one number, ascending.
  std::vector<int32_t> from_key_;    // Distance of the key from each of ranked_.
  std::vector<uint32_t> open_;       // Ids that no chosen neighbour hides yet, by rank.
  std::vector<uint32_t> open_rank_;  // Ranks of open_.
  std::vector<uint64_t> hidden_;
  std::vector<int32_t> dots_;
  std::vector<uint32_t> kept_;
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_GRAPH_GRAPH_NEIGHBOURS_H_
