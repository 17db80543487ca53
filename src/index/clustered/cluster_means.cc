#include "index/clustered/cluster_means.h"

#include <algorithm>
#include <string>
#include <vector>

#include "common/check.h"
#include "common/lane_sum.h"
#include "index/planes/key_sample.h"
#include "kernels/convert.h"
#include "kernels/hadamard.h"
#include "storage/vfs/field_check.h"

namespace attndb::index {
namespace {

using kernels::kPlaneKeys;
using kernels::PlaneBlockBytes;

constexpr size_t kMaxQueryRows = 16;

// The square of a key's norm fits float32, and so does a mean's; rounding adds little.
constexpr double kLongestMean = 0x1p65;

struct MeansLayout {
  MeansLayout(size_t num_means, size_t num_channels)
      : num_blocks((num_means + kPlaneKeys - 1) / kPlaneKeys),
        low(num_blocks * PlaneBlockBytes(num_channels)),
        scales(2 * low),
        total_bytes(scales + num_blocks * kPlaneKeys * sizeof(uint16_t)) {}

  size_t num_blocks;
  size_t low;
  size_t scales;
  size_t total_bytes;
};

}  // namespace

uint64_t ClusterMeans::BytesFor(uint64_t num_clusters, size_t num_channels) {
  return MeansLayout(num_clusters, num_channels).total_bytes;
}

Result<ClusterMeans> ClusterMeans::Make(const KeyPlanes& planes, std::string_view object) {
  const kernels::RowsView means = planes.block_means();
  const size_t num_channels = means.num_elements;
  const size_t num_means = kernels::NumWeightBlocks(planes.num_keys());
  const MeansLayout layout(num_means, num_channels);
  ClusterMeans made;
  ATTNDB_ASSIGN_OR_RETURN(made.buffer_, AlignedBuffer::AllocateZeroed(layout.total_bytes));
  auto* const bytes = reinterpret_cast<uint8_t*>(made.buffer_.data());
  auto* const scales = reinterpret_cast<uint16_t*>(bytes + layout.scales);
  made.view_ = {bytes, bytes + layout.low, scales, num_channels};
  std::vector<float> rows(kPlaneKeys * num_channels);
  float residual_sq[kPlaneKeys];
  for (size_t block = 0; block < layout.num_blocks; ++block) {
    const size_t first = block * kPlaneKeys;
    const size_t count = std::min(kPlaneKeys, num_means - first);
    kernels::LoadRows(means, first, count, rows.data());
    for (size_t i = 0; i < count; ++i) {
      const double norm = Norm({rows.data() + i * num_channels, num_channels});
      if (norm <= kLongestMean) continue;
      return storage::Mismatch(object, "block_means[" + std::to_string(first + i) + ']',
                               "a norm up to 2^65", std::to_string(norm));
    }
    kernels::HadamardRows(rows.data(), num_channels, count, num_channels, planes.rotation().data());
    const size_t at = block * PlaneBlockBytes(num_channels);
    kernels::EncodePlanes(rows.data(), num_channels, count, num_channels,
                          {.high = bytes + at,
                           .low = bytes + layout.low + at,
                           .scales = scales + first,
                           .residual_sq = residual_sq});
  }
  return made;
}

void ClusterMeans::Scan(size_t num_clusters, std::span<const EstimateQuery> queries, float* scores,
                        size_t scores_stride) const {
  for (size_t first = 0; first < queries.size(); first += kMaxQueryRows) {
    const size_t count = std::min(kMaxQueryRows, queries.size() - first);
    kernels::PlaneQuery of[kMaxQueryRows];
    for (size_t r = 0; r < count; ++r) {
      of[r] = queries[first + r].plane;
      of[r].offset = 0;
      of[r].block_offsets = nullptr;
    }
    kernels::ScanPlanes(view_, 8, 0, num_clusters, of, count, scores + first * scores_stride,
                        scores_stride);
  }
}

}  // namespace attndb::index
