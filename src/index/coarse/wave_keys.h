// Keys in clusters by direction, with the means of each cluster's keys and values: RetroInfer's
// wave index. A search scores the clusters' mean keys, and scores exactly the keys of the clusters
// of most worth to the group (wave_search.h). The other clusters are estimated from sums().
//
// Queries: only the k best: a mean does not tell how the keys of its cluster spread.
// Bound:   the weights of a cluster's keys add up to at least count x exp(scale q.mean) (Jensen's
//          inequality), except for the mean's rounding, and only if no soft cap bends logits.
// Errors:  kResourceExhausted: no memory; Parse: those of wave_format.h. Keys and values must be
//          finite (heads with NaN or Inf run `full`).
// Threads: constant after construction.
// Source:  RetroInfer (arXiv:2505.02922), segmented clustering.
#ifndef ATTNDB_INDEX_COARSE_WAVE_KEYS_H_
#define ATTNDB_INDEX_COARSE_WAVE_KEYS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "attndb/result.h"
#include "common/aligned_buffer.h"
#include "index/coarse/spherical_kmeans.h"
#include "index/coarse/wave_format.h"
#include "index/key_index.h"

namespace attndb::index {

struct WaveSource {
  kernels::RowsView keys;
  kernels::RowsView values;
  size_t num_keys = 0;
};

class WaveKeys final : public KeyIndex {
 public:
  // REQUIRES: source.num_keys > 0; keys and values are of one type.
  static Result<WaveKeys> Build(const WaveSource& source, const KMeansOptions& options);
  // Takes clusters that were written before; `bytes` lie at a multiple of kPieceAlignment, are used
  // in place and must outlive the result. They may hold anything. `object` names them in errors.
  static Result<WaveKeys> Parse(std::span<const std::byte> bytes, const WaveShape& expected,
                                std::string_view object);

  // The bytes that Parse reads, as long as this lives.
  std::span<const std::byte> bytes() const { return bytes_; }
  const ClusterSums& sums() const { return sums_; }

  size_t num_keys() const override { return sums_.num_keys; }
  uint64_t memory_bytes() const override { return buffer_.size(); }
  size_t ScratchBytes(const IndexCall& call) const override;
  // REQUIRES: SearchKind::kTopK; the spec has its logit.
  Status Search(const IndexCall& call, void* scratch, FoundKeys* found,
                SearchCost* cost) const override;

 private:
  WaveKeys(const ClusterSums& sums, std::span<const std::byte> bytes)
      : sums_(sums), bytes_(bytes) {}

  ClusterSums sums_;
  std::span<const std::byte> bytes_;
  AlignedBuffer buffer_;  // Holds the bytes, if they were built here.
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_COARSE_WAVE_KEYS_H_
