// Internal: the loops of a scan of key planes over a run of keys.
//
// A pass has up to four q rows, whose sums take half of AVX2's 16 registers. More rows take more
// passes over each tile of keys, which then lies in the L1 cache.
#ifndef ATTNDB_KERNELS_PLANE_PASS_INL_H_
#define ATTNDB_KERNELS_PLANE_PASS_INL_H_

#include "kernels/dot-inl.h"
#include "kernels/planes.h"

namespace attndb::kernels::ATTNDB_TARGET {
namespace {

inline constexpr size_t kMaxPlaneRows = 4;

// Fills in the additions to the scores of the keys of block `block` of kOffsetKeys, counted from
// the scan's first key.
template <size_t kRows>
[[gnu::always_inline]] inline void FindOffsets(const PlaneQuery* queries, size_t block,
                                               float* offsets) {
  for (size_t r = 0; r < kRows; ++r) {
    const float* const of_blocks = queries[r].block_offsets;
    offsets[r] = queries[r].offset + (of_blocks == nullptr ? 0.0f : of_blocks[block]);
  }
}

// Calls pass(begin, end, scores, stride) for the blocks of kPlaneKeys keys that hold keys [begin,
// end), so that passes see only whole blocks; `scores` begins with key `begin`.
template <size_t kRows, typename Pass>
inline void ForBlocks(size_t begin, size_t end, float* scores, size_t scores_stride,
                      const Pass& pass) {
  static_assert(kTile % kPlaneKeys == 0);
  size_t whole = (begin + kPlaneKeys - 1) / kPlaneKeys * kPlaneKeys;
  const auto part = [&](size_t key, size_t from, size_t to) {
    alignas(64) float parts[kRows * kPlaneKeys];
    pass(key, key + kPlaneKeys, parts, kPlaneKeys);
    for (size_t r = 0; r < kRows; ++r) {
      for (size_t k = from; k < to; ++k) {
        scores[r * scores_stride + (k - begin)] = parts[r * kPlaneKeys + (k - key)];
      }
    }
  };
  if (whole > begin) part(whole - kPlaneKeys, begin, whole < end ? whole : end);
  const size_t last = end / kPlaneKeys * kPlaneKeys;
  if (last > whole) {
    pass(whole, last, scores + (whole - begin), scores_stride);
    whole = last;
  }
  if (end > whole) part(whole, whole, end);
}

// Calls pass.operator()<rows>(begin, end, ahead, first row), so that every row meets every key.
// `ahead`: bytes to fetch ahead, 0 where the keys are in the cache.
template <typename Pass>
inline void ForPasses(size_t first_key, size_t num_keys, size_t num_q_rows, size_t ahead,
                      const Pass& pass) {
  const size_t end = first_key + num_keys;
  for (size_t begin = first_key; begin < end;) {
    const size_t next = (begin / kTile + 1) * kTile;
    const size_t tile_end = next < end && num_q_rows > kMaxPlaneRows ? next : end;
    size_t num_rows = 0;
    for (size_t r = 0; r < num_q_rows; r += num_rows) {
      // Rows are spread evenly over the least number of passes: 5 are 3 + 2, 9 are 3 + 3 + 3.
      const size_t left = num_q_rows - r;
      const size_t num_passes = (left + kMaxPlaneRows - 1) / kMaxPlaneRows;
      num_rows = (left + num_passes - 1) / num_passes;
      const size_t fetch = r == 0 ? ahead : 0;
      if (num_rows == 4) pass.template operator()<4>(begin, tile_end, fetch, r);
      if (num_rows == 3) pass.template operator()<3>(begin, tile_end, fetch, r);
      if (num_rows == 2) pass.template operator()<2>(begin, tile_end, fetch, r);
      if (num_rows == 1) pass.template operator()<1>(begin, tile_end, fetch, r);
    }
    begin = tile_end;
  }
}

}  // namespace
}  // namespace attndb::kernels::ATTNDB_TARGET

#endif  // ATTNDB_KERNELS_PLANE_PASS_INL_H_
