// Internal: a target's work on one block of key planes, ScoreBlock and EncodeBlock, in portable
//           C++. Targets with better versions (planes_avx2-inl.h, planes_avx512-inl.h) give the
//           same bits.
#ifndef ATTNDB_KERNELS_PLANES_BLOCK_INL_H_
#define ATTNDB_KERNELS_PLANES_BLOCK_INL_H_

#include "kernels/float_bits-inl.h"
#include "kernels/planes.h"
#include "kernels/simd.h"

namespace attndb::kernels::ATTNDB_TARGET {
namespace {

// Codes of the q rows of a pass.
template <size_t kRows>
struct Codes {
  const int8_t* row[kRows];
};

// Weight of S_high in a block's sums. For 4 bits sums are doubled, so that half of the middle of
// the low nibble is a whole number.
template <int kBits>
constexpr int HighWeight() {
  return kBits == 4 ? 32 : 16;
}

// Turns the sums of q rows into scores of a block of keys.
template <size_t kRows>
struct RowTerms {
  int32_t first_sum[kRows];
  float scale[kRows];
  float offset[kRows] = {};
};

// Rounds to the nearest whole number, ties to even; |x| < 2^22.
inline float RoundOne(float x) {
  constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23 leaves no bits for the fraction.
  return (x + kMagic) - kMagic;
}

// The keys of a block that is encoded. Missing keys are some key with a scale of 0.
struct BlockRows {
  const float* row[kPlaneKeys];
  float scale[kPlaneKeys];
  float inverse[kPlaneKeys];
  size_t num_keys;
};

#if !defined(__AVX2__)

// Four passes share one copy, whatever constants they call it with. Clang has no such copies.
#if defined(__clang__)
#define ATTNDB_ONE_COPY_ gnu::noinline
#else
#define ATTNDB_ONE_COPY_ gnu::noinline, gnu::noclone
#endif

template <size_t kRows>
inline void AddPlane(const uint8_t* plane, const Codes<kRows>& codes, size_t num_channels,
                     int weight, int32_t* sums) {
  for (size_t channel = 0; channel < num_channels; channel += 8) {
    const uint8_t* const line = plane + channel * 8;
    for (size_t r = 0; r < kRows; ++r) {
      const int8_t* const q = codes.row[r] + channel;
      for (size_t key = 0; key < kPlaneKeys; ++key) {
        int32_t sum = 0;
        for (size_t i = 0; i < 4; ++i) {
          sum += (line[4 * key + i] & 15) * q[i] + (line[4 * key + i] >> 4) * q[4 + i];
        }
        sums[r * kPlaneKeys + key] += weight * sum;
      }
    }
  }
}

template <int kBits, size_t kRows>
[[ATTNDB_ONE_COPY_]] void ScoreBlock(const uint8_t* high, const uint8_t* low, size_t,
                                     const Codes<kRows>& codes, size_t num_channels,
                                     const uint16_t* scales, const RowTerms<kRows>& terms,
                                     float* scores, size_t scores_stride) {
  int32_t sums[kRows * kPlaneKeys];
  for (size_t i = 0; i < kRows * kPlaneKeys; ++i) sums[i] = terms.first_sum[i / kPlaneKeys];
  AddPlane<kRows>(high, codes, num_channels, HighWeight<kBits>(), sums);
  if constexpr (kBits == 8) AddPlane<kRows>(low, codes, num_channels, 1, sums);
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t key = 0; key < kPlaneKeys; ++key) {
      const float sum = static_cast<float>(sums[r * kPlaneKeys + key]);
      scores[r * scores_stride + key] =
          (terms.scale[r] * WidenBFloat16(scales[key])) * sum + terms.offset[r];
    }
  }
}

// Adds the nibbles of one key to its block; returns the squared norm of their residual.
inline float EncodeKey(const BlockRows& keys, size_t key, size_t num_channels,
                       const PlaneBlock& block) {
  const float* const x = keys.row[key];
  float left_sq[8] = {};  // In the order of ReduceAdd8.
  for (size_t i = 0; i < num_channels; ++i) {
    const float nearest = RoundOne(x[i] * keys.inverse[key]);
    const float whole = nearest < 127.0f ? nearest : 127.0f;
    const float left = x[i] - whole * keys.scale[key];
    left_sq[i % 8] = left_sq[i % 8] + left * left;
    const int32_t code = static_cast<int32_t>(whole);
    const unsigned byte = static_cast<unsigned>(code + 128);
    const size_t at = i / 8 * 64 + 4 * key + i % 4;
    const unsigned shift = i % 8 / 4 * 4;
    block.high[at] = static_cast<uint8_t>(block.high[at] | byte >> 4 << shift);
    block.low[at] = static_cast<uint8_t>(block.low[at] | (byte & 15) << shift);
  }
  const float even = (left_sq[0] + left_sq[4]) + (left_sq[2] + left_sq[6]);
  const float odd = (left_sq[1] + left_sq[5]) + (left_sq[3] + left_sq[7]);
  return even + odd;
}

void EncodeBlock(const BlockRows& keys, size_t num_channels, const PlaneBlock& block) {
  __builtin_memset(block.high, 0, PlaneBlockBytes(num_channels));
  __builtin_memset(block.low, 0, PlaneBlockBytes(num_channels));
  for (size_t key = 0; key < kPlaneKeys; ++key) {
    const float left_sq = EncodeKey(keys, key, num_channels, block);
    if (key < keys.num_keys) block.residual_sq[key] = left_sq;
  }
}

#endif  // !__AVX2__

}  // namespace
}  // namespace attndb::kernels::ATTNDB_TARGET

#endif  // ATTNDB_KERNELS_PLANES_BLOCK_INL_H_
