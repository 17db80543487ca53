// Internal: the parts of the sign plane that are written for AVX2. The AVX-512 target has them as
// well, with 256-bit registers; where there is VBMI, sign_plane_avx512-inl.h scores.
//
// A table of 16 bytes lies in half a register, so one shuffle looks up four channels of 16 keys
// for two groups of channels. The order of keys in bytes is the one that packing makes of the lines
// of planes, and that unpacking to float32 undoes.
#ifndef ATTNDB_KERNELS_SIGN_PLANE_AVX2_INL_H_
#define ATTNDB_KERNELS_SIGN_PLANE_AVX2_INL_H_

#if defined(__AVX2__)

#include <immintrin.h>

#include "kernels/dot-inl.h"
#include "kernels/planes_avx2-inl.h"
#include "kernels/sign_plane_block-inl.h"

namespace attndb::kernels::ATTNDB_TARGET {
namespace {

// Adds the table entries of 8 channels: keys in low halves to sums[r][0], in high ones to [1].
template <size_t kRows>
inline void AddSigns(const uint8_t* signs, const SignRows<kRows>& rows, size_t channel,
                     __m256i (&sums)[kRows][2]) {
  const __m256i mask = _mm256_set1_epi8(15);
  const __m256i bytes = Once(Load32(signs + channel * 4));
  const __m256i keys0 = Once(_mm256_and_si256(bytes, mask));
  const __m256i keys1 = Once(_mm256_and_si256(_mm256_srli_epi16(bytes, 4), mask));
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) {
    const __m256i table = Once(Load32(rows.tables[r] + channel * 4));
    sums[r][0] = Once(_mm256_add_epi8(sums[r][0], _mm256_shuffle_epi8(table, keys0)));
    sums[r][1] = Once(_mm256_add_epi8(sums[r][1], _mm256_shuffle_epi8(table, keys1)));
  }
}

// sums[r]: of table entries of the channels [begin, end) of a chunk, as bytes.
template <size_t kRows>
[[gnu::always_inline]] inline void SumChunk(const uint8_t* signs, size_t ahead,
                                            const SignRows<kRows>& rows, size_t begin, size_t end,
                                            __m256i (&sums)[kRows][2]) {
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) sums[r][0] = sums[r][1] = _mm256_setzero_si256();
  for (size_t channel = begin; channel < end; channel += 16) {
    Prefetch(signs + channel * 4 + ahead);
    AddSigns<kRows>(signs, rows, channel, sums);
    AddSigns<kRows>(signs, rows, channel + 8, sums);
  }
}

// Twice the sums of keys 4i to 4i + 3 of either half of a block, as 16-bit words.
inline void DoubleSums(const __m256i (&sums)[2], __m256i (&words)[2]) {
  const __m256i zero = _mm256_setzero_si256();
  // The two halves of a register are of different channels.
  const __m256i even = _mm256_permute2x128_si256(sums[0], sums[1], 0x20);
  const __m256i odd = _mm256_permute2x128_si256(sums[0], sums[1], 0x31);
  const __m256i bytes = _mm256_add_epi8(even, odd);
  words[0] = _mm256_unpacklo_epi8(bytes, zero);
  words[1] = _mm256_unpackhi_epi8(bytes, zero);
  words[0] = _mm256_add_epi16(words[0], words[0]);
  words[1] = _mm256_add_epi16(words[1], words[1]);
}

#if !defined(__AVX512VBMI__)

// Scores of one block.
template <size_t kRows>
[[gnu::always_inline]] inline void ScoreSigns(const uint8_t* signs, size_t ahead,
                                              const SignRows<kRows>& rows, size_t num_channels,
                                              const uint16_t* factors, float* scores,
                                              size_t scores_stride) {
  __m256i sums[kRows][2], words[2];
  alignas(32) uint16_t before[kRows][kSignKeys];  // Of channels before the last chunk.
  size_t channel = 0;
  for (; num_channels - channel > kSignChunk; channel += kSignChunk) {
    SumChunk<kRows>(signs, ahead, rows, channel, channel + kSignChunk, sums);
#pragma GCC unroll 16
    for (size_t r = 0; r < kRows; ++r) {
      DoubleSums(sums[r], words);
#pragma GCC unroll 16
      for (size_t i = 0; i < 2; ++i) {
        uint16_t* const to = &before[r][kPlaneKeys * i];
        Store32(to, channel == 0 ? words[i] : _mm256_add_epi16(words[i], Load32(to)));
      }
    }
  }
  SumChunk<kRows>(signs, ahead, rows, channel, num_channels, sums);
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) DoubleSums(sums[r], sums[r]);
  if (channel > 0) {
#pragma GCC unroll 16
    for (size_t i = 0; i < 2 * kRows; ++i) {
      __m256i* const sum = &sums[i / 2][i % 2];
      *sum = _mm256_add_epi16(*sum, Load32(&before[i / 2][kPlaneKeys * (i % 2)]));
    }
  }
  const __m256i base = _mm256_set1_epi16(0x4b00);  // The high half of kSignBase.
#pragma GCC unroll 16
  for (size_t i = 0; i < 4; ++i) {
    const __m256 key_factors = LoadScales(factors + 8 * i);
#pragma GCC unroll 16
    for (size_t r = 0; r < kRows; ++r) {
      const __m256i twice = sums[r][i / 2];
      const __m256i whole =
          i % 2 == 0 ? _mm256_unpacklo_epi16(twice, base) : _mm256_unpackhi_epi16(twice, base);
      const __m256 sum = _mm256_sub_ps(_mm256_castsi256_ps(whole), _mm256_set1_ps(rows.bias[r]));
      const __m256 factor = _mm256_mul_ps(_mm256_set1_ps(rows.scale[r]), key_factors);
      _mm256_storeu_ps(scores + r * scores_stride + 8 * i,
                       _mm256_add_ps(_mm256_mul_ps(factor, sum), _mm256_set1_ps(rows.offset[r])));
    }
  }
}

#endif  // !__AVX512VBMI__

}  // namespace
}  // namespace attndb::kernels::ATTNDB_TARGET

#endif  // __AVX2__
#endif  // ATTNDB_KERNELS_SIGN_PLANE_AVX2_INL_H_
