// Clusters that prune the scan of key planes: the keys of one kv head in an order in which each
// block of the planes is a cluster (key_order.h). A search scores the blocks' means, scans the
// blocks that may hold wanted keys at 4 bits, and scores the candidates exactly.
//
// Bound:   the best key of a cluster scores about its mean's score plus |q| * reach. The reach
//          tells how far above the mean sampled queries found the best key. A cluster is visited if
//          mean + effort * |q| * reach attains the score that some q head of the group looks for;
//          the default effort is kEffort. The bound is an estimate: keys beyond it are missed.
// Ours:    means rank as well as anything that was tried. Scores by ridge regression of each
//          cluster's log-sum-exp on the sampled queries (as SAAP, arXiv:2502.08246, and LoRANN,
//          arXiv:2410.18926, learn theirs) gain less than a point of recall at the same number of
//          keys.
// Draws:   a block of 16 keys is not scanned if its noise is below the least noise by which one of
//          its keys could be drawn. The sample is then that of a scan of all keys, except for keys
//          beyond the reach.
// Errors:  kResourceExhausted: no memory; Parse: those of cluster_format.h. Keys are finite.
// Threads: constant after construction.
#ifndef ATTNDB_INDEX_CLUSTERED_CLUSTERED_KEYS_H_
#define ATTNDB_INDEX_CLUSTERED_CLUSTERED_KEYS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "attndb/result.h"
#include "common/aligned_buffer.h"
#include "index/clustered/cluster_format.h"
#include "index/clustered/cluster_means.h"
#include "index/clustered/key_order.h"
#include "index/draw_index.h"
#include "index/key_index.h"
#include "index/planes/key_planes.h"
#include "index/planes/plane_source.h"

namespace attndb::index {

class ClusteredKeys final : public KeyIndex, public DrawIndex {
 public:
  static constexpr float kEffort = 1.2f;

  ClusteredKeys() = default;  // Has no keys.

  // The most bytes for num_keys keys: both parts, and the codes of means that are made from them.
  static uint64_t BytesFor(uint64_t num_keys, size_t num_channels);

  // The result has no keys if a key's square overflows float32. source.order must be empty.
  static Result<ClusteredKeys> Build(const PlaneSource& source);

  // Takes parts that were written before; they lie at multiples of kPieceAlignment, are used in
  // place and must outlive the result. They may hold anything. `object` names them in errors.
  static Result<ClusteredKeys> Parse(const ClusterParts& parts, const PlaneShape& expected,
                                     std::string_view object);

  // The bytes that Parse reads, as long as this lives. REQUIRES: num_keys() > 0.
  const ClusterParts& parts() const { return parts_; }

  size_t num_keys() const override { return planes_.num_keys(); }
  uint64_t memory_bytes() const override {
    return parts_.planes.size() + parts_.order.size() + means_.memory_bytes();
  }
  size_t ScratchBytes(const IndexCall& call) const override;
  Status Search(const IndexCall& call, void* scratch, FoundKeys* found,
                SearchCost* cost) const override;

  const DrawIndex* draws() const override { return this; }
  const KeyEstimates& estimates() const override { return planes_; }
  PlaceRange PlacesOf(size_t first, size_t end) const override;
  KeepCost Draw(const DrawCall& call, kernels::KeptTokens* kept) const override;

  size_t num_clusters() const { return reaches_.size(); }
  // The key at a place of the planes.
  uint32_t KeyAt(size_t place) const {
    return static_cast<uint32_t>(place / kPieceKeys * kPieceKeys + numbers_[place]);
  }

 private:
  friend class ClusterSearch;

  ClusterParts parts_;
  KeyPlanes planes_;  // In the order of clusters, centred by blocks.
  ClusterMeans means_;
  std::span<const uint16_t> numbers_;  // By place: the key's index in its piece.
  std::span<const float> reaches_;     // [cluster]
  AlignedBuffer buffer_;               // Holds the parts, if they were built here.
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_CLUSTERED_CLUSTERED_KEYS_H_
