#include "kernels/sign_plane.h"

#include "common/check.h"
#include "kernels/kernel_table.h"

namespace attndb::kernels {

void EncodeSignQuery(const float* q, size_t num_channels, uint8_t* tables, float* scale,
                     int32_t* magnitude_sum) {
  ATTNDB_DCHECK(num_channels % kRowMultiple == 0);
  Kernels().signs->encode_sign_query(q, num_channels, tables, scale, magnitude_sum);
}

void ScanSigns(const SignView& signs, size_t first_key, size_t num_keys, const SignQuery* queries,
               size_t num_q_rows, float* scores, size_t scores_stride) {
  ATTNDB_DCHECK(signs.num_channels % kRowMultiple == 0);
  ATTNDB_DCHECK(signs.num_channels <= kMaxRowElements);
  Kernels().signs->scan_signs(signs, first_key, num_keys, queries, num_q_rows, scores,
                              scores_stride);
}

}  // namespace attndb::kernels
