// Internal: scores of a block of key planes by VNNI, with the same bits as everywhere.
//
// A line is one register of 64 bytes; VPDPBUSD adds four channels of its 16 keys to int32 sums. Zen
// 4 starts one such product per cycle in half of its vector pipes. So four rows take at least
// head_dim / 16 cycles per key, 85 % of the measured time at head_dim 128. Nibbles are unpacked in
// the other half.
//
// Blocks are processed one by one. Two or four side by side would share the loads of codes, but
// break up the streams that the hardware prefetches, which costs up to a third of the bandwidth.
#ifndef ATTNDB_KERNELS_PLANES_AVX512_INL_H_
#define ATTNDB_KERNELS_PLANES_AVX512_INL_H_

#if defined(__AVX512VNNI__)

#include <immintrin.h>

#include "kernels/dot-inl.h"
#include "kernels/planes_block-inl.h"

namespace attndb::kernels::ATTNDB_TARGET {
namespace {

// If arithmetic fills the core, with three rows and more, the hardware does not prefetch the high
// plane far enough ahead. In all other cases it is better left alone: prefetch instructions for 8
// bits cost 10 to 20 % of the bandwidth.
template <int kBits, size_t kRows>
inline constexpr bool kFetches = kBits == 4 && kRows >= 3;

inline __m512i LoadLine(const uint8_t* line) { return Once(_mm512_loadu_si512(line)); }
// Sixteen times the nibbles of a line.
inline __m512i HighNibbles(__m512i line) { return _mm512_andnot_si512(_mm512_set1_epi8(15), line); }
inline __m512i LowNibbles(__m512i line) { return HighNibbles(_mm512_slli_epi16(line, 4)); }
// Nibbles of `high` above the nibbles of `low`.
inline __m512i JoinNibbles(__m512i high, __m512i low) {
  constexpr int kSelect = 0xca;  // a ? b : c.
  return _mm512_ternarylogic_epi32(_mm512_set1_epi8(15), low, high, kSelect);
}

// Adds the products of four bytes of each key with four codes of each row. In assembler, as GCC 12
// neither broadcasts within the instruction nor adds in place, which costs 5 % of the speed.
template <size_t kRows>
[[gnu::always_inline]] inline void AddBytes(__m512i bytes, const Codes<kRows>& codes,
                                            size_t channel, __m512i (&sums)[kRows]) {
  struct Four {
    int8_t codes[4];
  };
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) {
    __asm__("vpdpbusd %2%{1to16%}, %1, %0"
            : "+v"(sums[r])
            : "v"(bytes), "m"(*reinterpret_cast<const Four*>(codes.row[r] + channel)));
  }
}

// Sums of 16 S_high + S_low, or 16 S_high for 4 bits. Those of even and odd quarters of a line are
// apart, so that eight of four rows hide the four cycles of a product.
template <int kBits, size_t kRows>
[[gnu::always_inline]] inline void SumLines(const uint8_t* high, const uint8_t* low, size_t ahead,
                                            const Codes<kRows>& codes, size_t num_channels,
                                            __m512i (&sums)[kRows]) {
  __m512i odd[kRows];
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) sums[r] = odd[r] = _mm512_setzero_si512();
  for (size_t channel = 0; channel < num_channels; channel += 8) {
    const __m512i nibbles = LoadLine(high + channel * 8);
    if constexpr (kFetches<kBits, kRows>) Prefetch(high + channel * 8 + ahead);
    if constexpr (kBits == 8) {
      const __m512i lower = LoadLine(low + channel * 8);
      AddBytes<kRows>(JoinNibbles(_mm512_slli_epi16(nibbles, 4), lower), codes, channel, sums);
      AddBytes<kRows>(JoinNibbles(nibbles, _mm512_srli_epi16(lower, 4)), codes, channel + 4, odd);
    } else {
      AddBytes<kRows>(LowNibbles(nibbles), codes, channel, sums);
      AddBytes<kRows>(HighNibbles(nibbles), codes, channel + 4, odd);
    }
  }
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) sums[r] = _mm512_add_epi32(sums[r], odd[r]);
}

// Scores of one block, as of planes_avx2-inl.h.
template <int kBits, size_t kRows>
[[gnu::always_inline]] inline void ScoreBlock(const uint8_t* high, const uint8_t* low, size_t ahead,
                                              const Codes<kRows>& codes, size_t num_channels,
                                              const uint16_t* scales, const RowTerms<kRows>& terms,
                                              float* scores, size_t scores_stride) {
  __m512i sums[kRows];
  SumLines<kBits, kRows>(high, low, ahead, codes, num_channels, sums);
  const Vec key_scales = Once(LoadRow(reinterpret_cast<const BFloat16*>(scales)));
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) {
    static_assert(HighWeight<4>() == 32 && HighWeight<8>() == 16);
    const __m512i weighted = kBits == 4 ? _mm512_add_epi32(sums[r], sums[r]) : sums[r];
    const __m512i sum = _mm512_add_epi32(weighted, _mm512_set1_epi32(terms.first_sum[r]));
    const Vec factor = Mul(Set1(terms.scale[r]), key_scales);
    const Vec product = Mul(factor, _mm512_cvtepi32_ps(sum));
    Store(scores + r * scores_stride, Add(product, Set1(terms.offset[r])));
  }
}

}  // namespace
}  // namespace attndb::kernels::ATTNDB_TARGET

#endif  // __AVX512VNNI__
#endif  // ATTNDB_KERNELS_PLANES_AVX512_INL_H_
