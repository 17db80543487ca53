// Internal to clustered: the means of clusters, in codes of 8 bits, so that one scan scores them
// all. They are to say which clusters to look at, and what codes leave out of a mean is a sixteenth
// of what they leave out of a key at 4 bits.
//
// Made:    from the planes' own means when these are read: they take a hundredth of their memory.
// Threads: constant once made.
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
  ClusterMeans() = default;  // Of no clusters.

  static uint64_t BytesFor(uint64_t num_clusters, size_t num_channels);

  // Of planes that centre by blocks and rotate, and do no more. kCorruption if a mean is longer
  // than any of finite keys: they may hold anything.
  static Result<ClusterMeans> Make(const KeyPlanes& planes, std::string_view object);

  uint64_t memory_bytes() const { return buffer_.size(); }

  // scores[r * scores_stride + c]: q_r times the mean of cluster c, for the first num_clusters.
  // queries: as the planes Prepare them.
  void Scan(size_t num_clusters, std::span<const EstimateQuery> queries, float* scores,
            size_t scores_stride) const;

 private:
  AlignedBuffer buffer_;
  kernels::PlanesView view_;
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_CLUSTERED_CLUSTER_MEANS_H_
