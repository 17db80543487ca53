// What the clusters of a run's keys hold in sum: for a centroid's score and for an estimate of what
// a search left out. Clusters of directions (coarse/wave_keys.h) have them.
//
// Pieces:  keys are clustered by pieces of kPieceKeys; no cluster has keys of two.
// Place:   a key's number in the order of clusters; the keys of a cluster ascend.
// Means:   in the type of the keys, rounded to nearest. Each cluster has a key.
// Threads: values and pure functions; who makes it keeps its memory alive.
#ifndef ATTNDB_INDEX_CLUSTER_SUMS_H_
#define ATTNDB_INDEX_CLUSTER_SUMS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/layout.h"

namespace attndb::index {

struct ClusterSums {
  static constexpr size_t kPieceKeys = 8192;

  size_t num_keys = 0;
  size_t num_clusters = 0;
  kernels::RowsView keys;                    // [num_clusters]: the mean of each one's keys,
  kernels::RowsView values;                  // ... and that of their values.
  const uint32_t* first_clusters = nullptr;  // [pieces]: the first of the piece.
  const uint32_t* ends = nullptr;            // [num_clusters]: the place behind its last key.
  const uint16_t* order = nullptr;           // [num_keys], by place: the key's number in its piece.
  const uint16_t* numbers = nullptr;  // [num_keys], by key: its cluster's number in the piece.

  static constexpr size_t NumPieces(size_t num_keys) {
    return (num_keys + kPieceKeys - 1) / kPieceKeys;
  }
  size_t FirstPlace(size_t cluster) const { return cluster == 0 ? 0 : ends[cluster - 1]; }
  size_t CountOf(size_t cluster) const { return ends[cluster] - FirstPlace(cluster); }
  size_t KeyAt(size_t place) const { return place / kPieceKeys * kPieceKeys + order[place]; }
  size_t ClusterOf(size_t key) const { return first_clusters[key / kPieceKeys] + numbers[key]; }
};

// Takes the keys [first, end), which are not seen, from the counts of clusters.
inline void HideKeys(const ClusterSums& sums, size_t first, size_t end, uint32_t* counts) {
  for (size_t key = first; key < end; ++key) --counts[sums.ClusterOf(key)];
}

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_CLUSTER_SUMS_H_
