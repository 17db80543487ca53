#include "kernels/planes.h"

#include "common/check.h"
#include "kernels/kernel_table.h"

namespace attndb::kernels {

void EncodePlanes(const float* rows, size_t stride, size_t num_keys, size_t num_channels,
                  const PlaneBlock& block) {
  ATTNDB_DCHECK(num_channels % kRowMultiple == 0);
  ATTNDB_DCHECK(num_keys > 0 && num_keys <= kPlaneKeys);
  Kernels().planes->encode_planes(rows, stride, num_keys, num_channels, block);
}

void EncodePlaneQuery(const float* q, size_t num_channels, int8_t* codes, float* scale,
                      int32_t* code_sum) {
  ATTNDB_DCHECK(num_channels % kRowMultiple == 0);
  Kernels().planes->encode_plane_query(q, num_channels, codes, scale, code_sum);
}

void ScanPlanes(const PlanesView& planes, int bits, size_t first_key, size_t num_keys,
                const PlaneQuery* queries, size_t num_q_rows, float* scores, size_t scores_stride) {
  ATTNDB_DCHECK(planes.num_channels % kRowMultiple == 0);
  ATTNDB_DCHECK(planes.num_channels <= kMaxRowElements);
  ATTNDB_DCHECK(bits == 4 || (bits == 8 && planes.low != nullptr));
  Kernels().planes->scan_planes(planes, bits, first_key, num_keys, queries, num_q_rows, scores,
                                scores_stride);
}

void ScanPlaneBlocks(const PlanesView& planes, int bits, const PlaneBlocks& list,
                     const PlaneQuery* queries, size_t num_q_rows, float* scores,
                     size_t scores_stride) {
  ATTNDB_DCHECK(planes.num_channels % kRowMultiple == 0);
  ATTNDB_DCHECK(planes.num_channels <= kMaxRowElements);
  ATTNDB_DCHECK(bits == 4 || (bits == 8 && planes.low != nullptr));
  Kernels().planes->scan_plane_blocks(planes, bits, list, queries, num_q_rows, scores,
                                      scores_stride);
}

size_t KeepPlanes(const PlanesView& planes, int bits, size_t first_key, size_t num_keys,
                  const PlaneQuery* queries, size_t num_q_rows, const DrawRule& rule,
                  const float* noise, uint32_t first_token, const float* needs, KeptTokens* kept) {
  ATTNDB_DCHECK(planes.num_channels % kRowMultiple == 0);
  ATTNDB_DCHECK(planes.num_channels <= kMaxRowElements);
  ATTNDB_DCHECK(bits == 4 || (bits == 8 && planes.low != nullptr));
  ATTNDB_DCHECK(num_q_rows >= 1 && num_q_rows <= kKeepRows);
  ATTNDB_DCHECK(first_key % kPlaneKeys == 0 && num_keys % kPlaneKeys == 0);
  ATTNDB_DCHECK(rule.logit.soft_cap == 0);
  ATTNDB_DCHECK(needs == nullptr || (first_key % kOffsetKeys == 0 && num_keys <= kMostSkipping));
  return Kernels().planes->keep_planes(planes, bits, first_key, num_keys, queries, num_q_rows, rule,
                                       noise, first_token, needs, kept);
}

}  // namespace attndb::kernels
