// Clusters of keys by direction: spherical k-means of one piece.
//
// Method:  the mean of the keys is subtracted from each; clusters begin at keys that lie evenly
//          apart; each round gives every key to the centroid of largest inner product, and moves
//          the centroids to the directions of their keys' means.
// Alike:   of equal centroids the first takes the keys. Clusters that end up empty are left out, so
//          that equal keys are one cluster.
// Bits:    which of two centroids is nearer may differ by instruction set where they are equally
//          near up to rounding.
// Errors:  none; keys are finite.
// Threads: pure function.
// Cost:    rounds x keys^2 / cluster_keys x channels multiplications.
// Source:  RetroInfer (arXiv:2505.02922), segmented clustering, as its code sets it: pieces of
//          8,192 keys, 16 a cluster, 10 rounds.
#ifndef ATTNDB_INDEX_COARSE_SPHERICAL_KMEANS_H_
#define ATTNDB_INDEX_COARSE_SPHERICAL_KMEANS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/layout.h"

namespace attndb::index {

struct KMeansOptions {
  size_t cluster_keys = 16;  // Mean size: one centroid per this many keys, rounded up.
  size_t num_rounds = 10;
};

struct KeyClusters {
  std::vector<uint16_t> numbers;  // [keys]: number of the key's cluster.
  size_t num_clusters = 0;
};

constexpr size_t NumCentroids(size_t num_keys, size_t cluster_keys) {
  return (num_keys + cluster_keys - 1) / cluster_keys;
}

// Clusters rows [first, first + count). REQUIRES: 0 < count, and NumCentroids(count) is at most
// 65,536.
KeyClusters ClusterDirections(const kernels::RowsView& keys, size_t first, size_t count,
                              const KMeansOptions& options);

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_COARSE_SPHERICAL_KMEANS_H_
