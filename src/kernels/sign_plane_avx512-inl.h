// Internal: scores of a block of the sign plane by VBMI and VNNI, with the same bits as everywhere.
//
// 64 bytes are 16 channels of the 32 keys of a block, four channels to a quarter of the register,
// as are tables: one shuffle looks up a quarter's channels in its own table. What the quarters add
// up to is gathered to four bytes a key, which VPDPBUSD sums. For four rows and 128 channels that
// makes 64 lookups and 64 sums a block, and 24 operations to unpack signs and 48 for scores: at two
// operations a cycle on Zen 4, 3.1 cycles a key; 4.7 are measured from the L1 cache.
#ifndef ATTNDB_KERNELS_SIGN_PLANE_AVX512_INL_H_
#define ATTNDB_KERNELS_SIGN_PLANE_AVX512_INL_H_

#if defined(__AVX512VNNI__) && defined(__AVX512VBMI__)

#include <immintrin.h>

#include "kernels/dot-inl.h"
#include "kernels/sign_plane_block-inl.h"

namespace attndb::kernels::ATTNDB_TARGET {
namespace {

// For each half of a block, where the four bytes of its keys lie in the sums of low and high halves
// of bytes, one after the other.
struct KeyBytes {
  alignas(64) uint8_t of_half[2][64];
  constexpr KeyBytes() : of_half() {
    for (size_t key = 0; key < kSignKeys; ++key) {
      for (size_t quarter = 0; quarter < 4; ++quarter) {
        const size_t at = key / 4 % 2 * 64 + quarter * 16 + key / 8 * 4 + key % 4;
        of_half[key / 16][key % 16 * 4 + quarter] = static_cast<uint8_t>(at);
      }
    }
  }
};
inline constexpr KeyBytes kKeyBytes;

// Adds the table entries of 16 channels: keys in low halves to sums[r][0], in high ones to [1].
template <size_t kRows>
[[gnu::always_inline]] inline void AddSignLine(const uint8_t* signs, const SignRows<kRows>& rows,
                                               size_t channel, __m512i (&sums)[kRows][2]) {
  const __m512i mask = _mm512_set1_epi8(15);
  const __m512i bytes = Once(_mm512_loadu_si512(signs + channel * 4));
  const __m512i keys0 = Once(_mm512_and_si512(bytes, mask));
  const __m512i keys1 = Once(_mm512_and_si512(_mm512_srli_epi16(bytes, 4), mask));
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) {
    const __m512i table = Once(_mm512_loadu_si512(rows.tables[r] + channel * 4));
    sums[r][0] = Once(_mm512_add_epi8(sums[r][0], _mm512_shuffle_epi8(table, keys0)));
    sums[r][1] = Once(_mm512_add_epi8(sums[r][1], _mm512_shuffle_epi8(table, keys1)));
  }
}

// Adds twice the entries of the channels [begin, end) of a chunk to the keys of either half.
template <size_t kRows>
[[gnu::always_inline]] inline void AddChunk(const uint8_t* signs, size_t ahead,
                                            const SignRows<kRows>& rows, size_t begin, size_t end,
                                            __m512i (&twice)[kRows][2]) {
  __m512i sums[kRows][2];
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) sums[r][0] = sums[r][1] = _mm512_setzero_si512();
  for (size_t channel = begin; channel < end; channel += 16) {
    Prefetch(signs + channel * 4 + ahead);
    AddSignLine<kRows>(signs, rows, channel, sums);
  }
#pragma GCC unroll 16
  for (size_t i = 0; i < 2 * kRows; ++i) {
    const __m512i(&parts)[2] = sums[i / 2];
    const __m512i order = _mm512_load_si512(kKeyBytes.of_half[i % 2]);
    const __m512i of_keys = _mm512_permutex2var_epi8(parts[0], order, parts[1]);
    __m512i* const sum = &twice[i / 2][i % 2];
    *sum = _mm512_dpbusd_epi32(*sum, of_keys, _mm512_set1_epi8(2));
  }
}

// Scores of one block.
template <size_t kRows>
[[gnu::always_inline]] inline void ScoreSigns(const uint8_t* signs, size_t ahead,
                                              const SignRows<kRows>& rows, size_t num_channels,
                                              const uint16_t* factors, float* scores,
                                              size_t scores_stride) {
  __m512i sums[kRows][2];
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) {
    sums[r][0] = sums[r][1] = _mm512_set1_epi32(-rows.magnitude_sum[r]);
  }
  size_t channel = 0;
  for (; num_channels - channel > kSignChunk; channel += kSignChunk) {
    AddChunk<kRows>(signs, ahead, rows, channel, channel + kSignChunk, sums);
  }
  AddChunk<kRows>(signs, ahead, rows, channel, num_channels, sums);
#pragma GCC unroll 16
  for (size_t half = 0; half < 2; ++half) {
    const auto* const of_half = reinterpret_cast<const BFloat16*>(factors + half * kPlaneKeys);
    const Vec key_factors = Once(LoadRow(of_half));
#pragma GCC unroll 16
    for (size_t r = 0; r < kRows; ++r) {
      const Vec factor = Mul(Set1(rows.scale[r]), key_factors);
      const Vec product = Mul(factor, _mm512_cvtepi32_ps(sums[r][half]));
      Store(scores + r * scores_stride + half * kPlaneKeys, Add(product, Set1(rows.offset[r])));
    }
  }
}

}  // namespace
}  // namespace attndb::kernels::ATTNDB_TARGET

#endif  // __AVX512VNNI__ && __AVX512VBMI__
#endif  // ATTNDB_KERNELS_SIGN_PLANE_AVX512_INL_H_
