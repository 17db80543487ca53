// Internal to graph: RoarGraph's choice of neighbours, and the loop over the keys that get them.
//
// Errors:  none. Scores that are NaN count as the least.
// Threads: a pruner is one thread's; ForKeys is parallel inside.
#ifndef ATTNDB_INDEX_GRAPH_NEIGHBOUR_PRUNER_H_
#define ATTNDB_INDEX_GRAPH_NEIGHBOUR_PRUNER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "index/graph/graph_codes.h"
#include "index/graph/graph_source.h"
#include "kernels/layout.h"

namespace attndb::index {

// The neighbours of each key.
using NeighbourLists = std::vector<std::vector<uint32_t>>;

// Chooses neighbours of keys by inner products. Each thread has its own.
class NeighbourPruner {
 public:
  explicit NeighbourPruner(const kernels::RowsView& keys);

  // Chooses at most max_kept of `candidates`; of equal scores the lowest first. `fills`: appends
  // candidates that were passed over until there are max_kept. Valid until the next call. REQUIRES:
  // candidates are different keys, and `key` is none of them.
  const std::vector<uint32_t>& Choose(uint32_t key, std::span<const uint32_t> candidates,
                                      size_t max_kept, bool fills);

 private:
  void Score(uint32_t key, std::span<const uint32_t> others);
  // Removes open candidates that score higher with `chosen` than with the key.
  void PassOver(uint32_t chosen);

  const kernels::RowsView keys_;
  std::vector<float> row_;
  std::vector<float> scores_;
  std::vector<uint32_t> order_;  // Candidates, best first.
  std::vector<uint32_t> open_;   // Candidates that may still be chosen.
  std::vector<float> of_open_;   // Scores of open_ with the key.
  std::vector<uint32_t> kept_;
};

// Keys [begin, end).
struct KeyRange {
  size_t begin = 0;
  size_t end = 0;
};

// Calls of_key(key, work) for each key; each part of the keys has a `make_work()` of its own. Once
// *options.cancel is set, keys may be left out.
template <typename MakeWork, typename OfKey>
void ForKeys(KeyRange keys, const RoarOptions& options, const MakeWork& make_work,
             const OfKey& of_key) {
  constexpr size_t kPartKeys = 512;
  ForParts(options.pool, (keys.end - keys.begin + kPartKeys - 1) / kPartKeys, [&](uint32_t part) {
    auto work = make_work();
    const size_t begin = keys.begin + part * kPartKeys;
    const size_t end = std::min(keys.end, begin + kPartKeys);
    for (size_t key = begin; key < end; ++key) {
      if (options.cancel != nullptr && options.cancel->load(std::memory_order_relaxed)) return;
      of_key(static_cast<uint32_t>(key), &work);
    }
  });
}

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_GRAPH_NEIGHBOUR_PRUNER_H_
