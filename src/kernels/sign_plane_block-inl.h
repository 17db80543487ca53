// Internal: what a target does with one block of signs, ScoreSigns, in portable C++. A
// target that has a better one (sign_plane_avx2-inl.h, sign_plane_avx512-inl.h) gives the same
// bits.
#ifndef ATTNDB_KERNELS_SIGN_PLANE_BLOCK_INL_H_
#define ATTNDB_KERNELS_SIGN_PLANE_BLOCK_INL_H_

#include "kernels/float_bits-inl.h"
#include "kernels/planes_block-inl.h"
#include "kernels/sign_plane.h"
#include "kernels/simd.h"

namespace attndb::kernels::ATTNDB_TARGET {
namespace {

// Channels whose sums of table entries fit a byte.
inline constexpr size_t kSignChunk = 128;

// A float32 whose low 16 bits count whole numbers: sums become floats by putting it in front.
inline constexpr float kSignBase = 8388608.0f;  // 2^23.

// The q rows of a pass.
template <size_t kRows>
struct SignRows {
  const uint8_t* tables[kRows];
  int32_t magnitude_sum[kRows];
  float bias[kRows];  // kSignBase + magnitude_sum.
  float scale[kRows];
  float offset[kRows] = {};
};

#if !defined(__AVX2__)

// Scores of one block.
template <size_t kRows>
inline void ScoreSigns(const uint8_t* signs, size_t, const SignRows<kRows>& rows,
                       size_t num_channels, const uint16_t* factors, float* scores,
                       size_t scores_stride) {
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t key = 0; key < kSignKeys; ++key) {
      const uint8_t* const bytes = signs + SignByte(key);
      unsigned sum = 0;
      for (size_t group = 0; group < num_channels / 4; ++group) {
        sum += rows.tables[r][16 * group + (bytes[16 * group] >> SignShift(key) & 15)];
      }
      const float twice = kSignBase + static_cast<float>(2 * sum);
      scores[r * scores_stride + key] =
          (rows.scale[r] * WidenBFloat16(factors[key])) * (twice - rows.bias[r]) + rows.offset[r];
    }
  }
}

#endif  // !__AVX2__

}  // namespace
}  // namespace attndb::kernels::ATTNDB_TARGET

#endif  // ATTNDB_KERNELS_SIGN_PLANE_BLOCK_INL_H_
