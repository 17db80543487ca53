// Internal to graph: which keys become neighbours of a key.
//
// Errors:  none.
// Threads: thread-compatible: one of each a thread.
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

// Lists that a key is linked by, at most.
inline constexpr size_t kMostLists = 64;

// Counts how often keys stand beside a key in lists.
class ListCompanions {
 public:
  explicit ListCompanions(size_t num_keys) : counts_(num_keys) {}

  // The keys, 200 at most, that are in most of `lists`, but not `key` itself; of those that are in
  // equally many the first. REQUIRES: at most kMostLists lists.
  void Find(const NearestLists& nearest, std::span<const uint32_t> lists, uint32_t key,
            std::vector<uint32_t>* found);

 private:
  void KeepMostCounted(size_t num_kept, std::vector<uint32_t>* found);

  std::vector<uint8_t> counts_;
  std::array<size_t, kMostLists + 1> of_count_ = {};  // How many keys are counted so often.
};

class NeighbourChooser {
 public:
  explicit NeighbourChooser(const KeyCodes* codes) : codes_(codes) {}

  // At most max_kept of `candidates` as neighbours of `key`: those that no chosen one is nearer to
  // than `key` is, nearest first; then, as there is room, the nearest of the others. Of equally
  // near ones the lowest first. Valid until the next call. REQUIRES: `key` is no candidate.
  const std::vector<uint32_t>& Choose(uint32_t key, size_t max_kept,
                                      std::span<const uint32_t> candidates);

 private:
  void Rank(uint32_t key, std::span<const uint32_t> candidates);
  // Takes those out of what is open that the first of it hides.
  void HideBehindFirst();

  const KeyCodes* const codes_;
  std::vector<uint64_t> ranked_;     // By distance from the key, then id: both in one number.
  std::vector<int32_t> from_key_;    // How far the key is from each of the ranked.
  std::vector<uint32_t> open_;       // Ids that nobody hides as yet, by rank,
  std::vector<uint32_t> open_rank_;  // ... and these.
  std::vector<uint64_t> hidden_;
  std::vector<int32_t> dots_;
  std::vector<uint32_t> kept_;
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_GRAPH_GRAPH_NEIGHBOURS_H_
