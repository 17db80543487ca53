// Sums over the clusters of a run's keys. A search scores centroids by them, and estimates the
// tokens that it left out. Clusters of directions (coarse/wave_keys.h) have them.
//
// Pieces:  keys are clustered in pieces of kPieceKeys; no cluster has keys of two pieces.
// Place:   a key's number in the order of clusters; within a cluster keys ascend.
// Means:   in the type of the keys, rounded to nearest. No cluster is empty.
// Threads: values and pure functions; the caller keeps their memory alive.
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
  kernels::RowsView keys;                    // [num_clusters]: mean of each cluster's keys.
  kernels::RowsView values;                  // [num_clusters]: mean of each cluster's values.
  const uint32_t* first_clusters = nullptr;  // [pieces]: number of the piece's first cluster.
  const uint32_t* ends = nullptr;            // [num_clusters]: place after the cluster's last key.
  const uint16_t* order = nullptr;           // [num_keys], by place: the key's index in its piece.
  const uint16_t* numbers = nullptr;  // [num_keys], by key: its cluster's index in the piece.

  static constexpr size_t NumPieces(size_t num_keys) {
    return (num_keys + kPieceKeys - 1) / kPieceKeys;
  }
  size_t FirstPlace(size_t cluster) const { return cluster == 0 ? 0 : ends[cluster - 1]; }
  size_t CountOf(size_t cluster) const { return ends[cluster] - FirstPlace(cluster); }
  size_t KeyAt(size_t place) const { return place / kPieceKeys * kPieceKeys + order[place]; }
  size_t ClusterOf(size_t key) const { return first_clusters[key / kPieceKeys] + numbers[key]; }
};

// Takes the hidden keys [first, end) out of `counts` [num_clusters].
inline void HideKeys(const ClusterSums& sums, size_t first, size_t end, uint32_t* counts) {
  for (size_t key = first; key < end; ++key) --counts[sums.ClusterOf(key)];
}

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_CLUSTER_SUMS_H_
