// Internal: the sign plane. What is the same for every target, and the parts that have a better
// version for AVX2 (sign_plane_avx2-inl.h, with the same bits) in portable C++.
#ifndef ATTNDB_KERNELS_SIGN_PLANE_INL_H_
#define ATTNDB_KERNELS_SIGN_PLANE_INL_H_

#include "kernels/float_bits-inl.h"
#include "kernels/plane_pass-inl.h"
#include "kernels/sign_plane.h"
#include "kernels/sign_plane_avx2-inl.h"
#include "kernels/sign_plane_avx512-inl.h"
#include "kernels/sign_plane_block-inl.h"

namespace attndb::kernels::ATTNDB_TARGET {
namespace {

inline constexpr float kLeastSignScale = 0x1p-126f;  // Its reciprocal is finite.

// The largest sum of |q| / kSignChunk that has to fit a byte.
inline float MaxChunkMean(const float* q, size_t num_channels) {
  float max = 0.0f;
  for (size_t chunk = 0; chunk < num_channels; chunk += kSignChunk) {
    float sum = 0.0f;
    for (size_t i = chunk; i < num_channels && i < chunk + kSignChunk; ++i) {
      const float part = q[i] * (1.0f / kSignChunk);  // The sum itself may overflow.
      sum += part < 0 ? -part : part;
    }
    if (max < sum) max = sum;
  }
  return max;
}

void EncodeSignQuery(const float* q, size_t num_channels, uint8_t* tables, float* scale,
                     int32_t* magnitude_sum) {
  // Each channel adds up to half when it is rounded.
  const float chunk = static_cast<float>(num_channels < kSignChunk ? num_channels : kSignChunk);
  bool is_zero = true;
  for (size_t i = 0; i < num_channels; ++i) is_zero = is_zero && q[i] == 0;
  const float wanted = MaxChunkMean(q, num_channels) * (kSignChunk / (255.0f - 0.5f * chunk));
  *scale = is_zero ? 0.0f : wanted < kLeastSignScale ? kLeastSignScale : wanted;
  const float inverse = is_zero ? 0.0f : 1.0f / *scale;
  int32_t total = 0;
  for (size_t channel = 0; channel < num_channels; channel += 4) {
    int32_t codes[4];
    int32_t below = 0;  // The least sum.
    for (size_t i = 0; i < 4; ++i) {
      codes[i] = static_cast<int32_t>(RoundOne(q[channel + i] * inverse));
      if (codes[i] < 0) below += codes[i];
      total += codes[i] < 0 ? -codes[i] : codes[i];
    }
    for (unsigned bits = 0; bits < 16; ++bits) {
      int32_t sum = -below;
      for (unsigned i = 0; i < 4; ++i) sum += (bits >> i & 1) != 0 ? codes[i] : 0;
      tables[4 * channel + bits] = static_cast<uint8_t>(sum);
    }
  }
  *magnitude_sum = total;
}

// The blocks [begin, end) of kSignKeys keys of a scan that began at first_key, and kRows rows;
// fetches what lies `ahead` bytes further on.
template <size_t kRows>
[[gnu::noinline]] void ScanSignPass(const SignView& signs, size_t first_key, size_t begin,
                                    size_t end, size_t ahead, const SignQuery* queries,
                                    float* scores, size_t scores_stride) {
  const size_t block_bytes = SignBlockBytes(signs.num_channels);
  SignRows<kRows> rows;
  for (size_t r = 0; r < kRows; ++r) {
    rows.tables[r] = queries[r].tables;
    rows.magnitude_sum[r] = queries[r].magnitude_sum;
    rows.bias[r] = kSignBase + static_cast<float>(queries[r].magnitude_sum);
    rows.scale[r] = queries[r].scale;
  }
  for (size_t key = begin; key < end; key += kSignKeys, scores += kSignKeys) {
    if (key % kOffsetKeys == 0 || key == begin) {
      FindOffsets<kRows>(queries, key / kOffsetKeys - first_key / kOffsetKeys, rows.offset);
    }
    ScoreSigns<kRows>(signs.signs + key / kSignKeys * block_bytes, ahead, rows, signs.num_channels,
                      signs.factors + key, scores, scores_stride);
  }
}

void ScanSigns(const SignView& signs, size_t first_key, size_t num_keys, const SignQuery* queries,
               size_t num_q_rows, float* scores, size_t scores_stride) {
  ForPasses(first_key, num_keys, num_q_rows, kPrefetchBytes,
            [&]<size_t kRows>(size_t begin, size_t end, size_t ahead, size_t r) {
              ForBlocks<kRows, kSignKeys>(
                  begin, end, scores + r * scores_stride + (begin - first_key), scores_stride,
                  [&](size_t first, size_t last, float* to, size_t stride) {
                    ScanSignPass<kRows>(signs, first_key, first, last, ahead, queries + r, to,
                                        stride);
                  });
            });
}

}  // namespace
}  // namespace attndb::kernels::ATTNDB_TARGET

#endif  // ATTNDB_KERNELS_SIGN_PLANE_INL_H_
