// Internal to clustered: the means of clusters in codes of 8 bits, so that one scan scores all
// means. They only decide which clusters to scan. A mean's code errs by a sixteenth of the error of
// a key's 4-bit code.
//
// Made:    from the planes' own means when planes are read: the codes take a hundredth of their
//          memory.
// Threads: constant after construction.
#ifndef ATTNDB_INDEX_CLUSTERED_CLUSTER_MEANS_H_
#define ATTNDB_INDEX_CLUSTERED_CLUSTER_MEANS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "attndb/result.h"
#include "common/aligned_buffer.h"
#include "index/planes/key_planes.h"
#include "kernels/planes.h"

namespace attndb::index {

class ClusterMeans {
 public:
  ClusterMeans() = default;  // Has no clusters.

  static uint64_t BytesFor(uint64_t num_clusters, size_t num_channels);

  // Makes the codes for planes that centre by blocks and rotate, and do nothing else. kCorruption
  // if a mean is longer than any mean of finite keys can be: `planes` may hold anything.
  static Result<ClusterMeans> Make(const KeyPlanes& planes, std::string_view object);

  uint64_t memory_bytes() const { return buffer_.size(); }

  // scores[r * scores_stride + c]: q_r times the mean of cluster c, for the first num_clusters
  // clusters. `queries` were made by Prepare of the planes.
  void Scan(size_t num_clusters, std::span<const EstimateQuery> queries, float* scores,
            size_t scores_stride) const;

 private:
  AlignedBuffer buffer_;
  kernels::PlanesView view_;
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_CLUSTERED_CLUSTER_MEANS_H_
