// Internal: the parts of key planes that are written for AVX2. The targets of AVX-512 have them as
// well, with 256-bit registers; where there is VNNI, all but the scores (planes_avx512-inl.h).
//
// Bytes (unsigned) are multiplied by q codes (signed), 32 at a time, into int16 sums of two
// neighbours. Codes of neighbours add up to at most 128: 255 * 128 = 32640 fits, so that both
// planes are put together to bytes and multiplied once. Sums of the high plane alone stay int16 for
// four lines, since eight times 15 * 128 = 1920 fit.
#ifndef ATTNDB_KERNELS_PLANES_AVX2_INL_H_
#define ATTNDB_KERNELS_PLANES_AVX2_INL_H_

#if defined(__AVX2__)

#include <immintrin.h>

#include "kernels/dot-inl.h"
#include "kernels/planes_block-inl.h"

namespace attndb::kernels::ATTNDB_TARGET {
namespace {

inline __m256i Load32(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
inline void Store32(void* p, __m256i v) { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }

// Repeats four codes of q for every key.
inline __m256i SpreadCodes(const int8_t* codes) {
  int32_t four;
  __builtin_memcpy(&four, codes, sizeof(four));
  return _mm256_set1_epi32(four);
}

// Adds to int16 sums, or begins them. Once() keeps GCC 12 from adding up the products later, in a
// tree of its own, which needs four times the registers that there are.
template <bool kBegin>
inline void AddProducts(__m256i nibbles, __m256i four, __m256i* sum) {
  const __m256i products = _mm256_maddubs_epi16(nibbles, four);
  *sum = Once(kBegin ? products : _mm256_add_epi16(*sum, products));
}

// Multiplies one line of the high plane: products of kRows q rows with keys 0..7 (sums[r][0]) and
// 8..15.
template <size_t kRows, bool kBegin>
inline void AddHighLine(const uint8_t* line, const Codes<kRows>& codes, size_t channel,
                        __m256i (&sums)[kRows][2]) {
  const __m256i mask = _mm256_set1_epi8(15);
  const __m256i bytes0 = Once(Load32(line)), bytes1 = Once(Load32(line + 32));
  const __m256i lo0 = _mm256_and_si256(bytes0, mask), lo1 = _mm256_and_si256(bytes1, mask);
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) {
    const __m256i four = Once(SpreadCodes(codes.row[r] + channel));
    AddProducts<kBegin>(lo0, four, &sums[r][0]);
    AddProducts<kBegin>(lo1, four, &sums[r][1]);
  }
  const __m256i hi0 = _mm256_and_si256(_mm256_srli_epi16(bytes0, 4), mask);
  const __m256i hi1 = _mm256_and_si256(_mm256_srli_epi16(bytes1, 4), mask);
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) {
    const __m256i four = Once(SpreadCodes(codes.row[r] + channel + 4));
    AddProducts<false>(hi0, four, &sums[r][0]);
    AddProducts<false>(hi1, four, &sums[r][1]);
  }
}

// Adds the products of kLines lines from `channel` on.
template <size_t kRows, size_t kLines>
[[gnu::always_inline]] inline void AddHighLines(const uint8_t* high, size_t ahead,
                                                const Codes<kRows>& codes, size_t channel,
                                                __m256i (&sums)[kRows][2]) {
  const uint8_t* const line = high + channel * 8;
  __m256i narrow[kRows][2];
  Prefetch(line + ahead);
  AddHighLine<kRows, true>(line, codes, channel, narrow);
#pragma GCC unroll 16
  for (size_t l = 1; l < kLines; ++l) {
    Prefetch(line + ahead + 64 * l);
    AddHighLine<kRows, false>(line + 64 * l, codes, channel + 8 * l, narrow);
  }
  const __m256i weight = _mm256_set1_epi16(HighWeight<4>());
#pragma GCC unroll 16
  for (size_t i = 0; i < 2 * kRows; ++i) {
    __m256i* const sum = &sums[i / 2][i % 2];
    *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(narrow[i / 2][i % 2], weight));
  }
}

// Loads eight scales.
inline __m256 LoadScales(const uint16_t* scales) {
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(scales));
  return Once(_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16)));
}

// Begins the sums of a block.
template <size_t kRows>
inline void BeginSums(const RowTerms<kRows>& terms, __m256i (&sums)[kRows][2]) {
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) {
    sums[r][0] = sums[r][1] = _mm256_set1_epi32(terms.first_sum[r]);
  }
}

// Writes the scores of a block from its sums.
template <size_t kRows>
[[gnu::always_inline]] inline void StoreScores(const __m256i (&sums)[kRows][2],
                                               const uint16_t* scales, const RowTerms<kRows>& terms,
                                               float* scores, size_t scores_stride) {
#pragma GCC unroll 16
  for (size_t half = 0; half < 2; ++half) {
    const __m256 key_scales = LoadScales(scales + 8 * half);
#pragma GCC unroll 16
    for (size_t r = 0; r < kRows; ++r) {
      const __m256 factor = _mm256_mul_ps(_mm256_set1_ps(terms.scale[r]), key_scales);
      const __m256 product = _mm256_mul_ps(factor, _mm256_cvtepi32_ps(sums[r][half]));
      _mm256_storeu_ps(scores + r * scores_stride + 8 * half,
                       _mm256_add_ps(product, _mm256_set1_ps(terms.offset[r])));
    }
  }
}

// Sums a block at 4 bits.
template <size_t kRows>
[[gnu::always_inline]] inline void SumHigh(const uint8_t* high, size_t ahead,
                                           const Codes<kRows>& codes, size_t num_channels,
                                           __m256i (&sums)[kRows][2]) {
  size_t channel = 0;
  for (; channel + 32 <= num_channels; channel += 32) {
    AddHighLines<kRows, 4>(high, ahead, codes, channel, sums);
  }
  if (channel < num_channels) AddHighLines<kRows, 2>(high, ahead, codes, channel, sums);
}

template <size_t kRows>
inline void AddCodes(__m256i keys0, __m256i keys1, const Codes<kRows>& codes, size_t channel,
                     __m256i (&sums)[kRows][2]) {
  const __m256i ones = _mm256_set1_epi16(1);
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) {
    const __m256i four = Once(SpreadCodes(codes.row[r] + channel));
    const __m256i pairs0 = _mm256_maddubs_epi16(keys0, four);
    const __m256i pairs1 = _mm256_maddubs_epi16(keys1, four);
    sums[r][0] = Once(_mm256_add_epi32(sums[r][0], _mm256_madd_epi16(pairs0, ones)));
    sums[r][1] = Once(_mm256_add_epi32(sums[r][1], _mm256_madd_epi16(pairs1, ones)));
  }
}

// Half a line of each plane put together to bytes: channels 0 to 3 of eight keys, and 4 to 7.
inline __m256i FirstBytes(__m256i high, __m256i low) {
  const __m256i mask = _mm256_set1_epi8(15);
  return _mm256_or_si256(_mm256_andnot_si256(mask, _mm256_slli_epi16(high, 4)),
                         _mm256_and_si256(mask, low));
}
inline __m256i SecondBytes(__m256i high, __m256i low) {
  const __m256i mask = _mm256_set1_epi8(15);
  return _mm256_or_si256(_mm256_andnot_si256(mask, high),
                         _mm256_and_si256(mask, _mm256_srli_epi16(low, 4)));
}

template <size_t kRows>
inline void AddLinePair(const uint8_t* high, const uint8_t* low, const Codes<kRows>& codes,
                        size_t channel, __m256i (&sums)[kRows][2]) {
  const __m256i high0 = Once(Load32(high)), high1 = Once(Load32(high + 32));
  const __m256i low0 = Once(Load32(low)), low1 = Once(Load32(low + 32));
  AddCodes<kRows>(FirstBytes(high0, low0), FirstBytes(high1, low1), codes, channel, sums);
  AddCodes<kRows>(SecondBytes(high0, low0), SecondBytes(high1, low1), codes, channel + 4, sums);
}

// Sums a block at 8 bits.
template <size_t kRows>
[[gnu::always_inline]] inline void SumBoth(const uint8_t* high, const uint8_t* low, size_t ahead,
                                           const Codes<kRows>& codes, size_t num_channels,
                                           __m256i (&sums)[kRows][2]) {
  for (size_t channel = 0; channel < num_channels; channel += 8) {
    const size_t line = channel * 8;
    Prefetch(high + line + ahead);
    Prefetch(low + line + ahead);
    AddLinePair<kRows>(high + line, low + line, codes, channel, sums);
  }
}

#if !defined(__AVX512VNNI__)

// Writes scores of one block from first_sum + 16 * S_high + S_low, or + 32 * S_high for 4 bits.
// Prefetches the bytes `ahead`.
template <int kBits, size_t kRows>
[[gnu::always_inline]] inline void ScoreBlock(const uint8_t* high, const uint8_t* low, size_t ahead,
                                              const Codes<kRows>& codes, size_t num_channels,
                                              const uint16_t* scales, const RowTerms<kRows>& terms,
                                              float* scores, size_t scores_stride) {
  __m256i sums[kRows][2];
  BeginSums<kRows>(terms, sums);
  if constexpr (kBits == 8) {
    SumBoth<kRows>(high, low, ahead, codes, num_channels, sums);
  } else {
    SumHigh<kRows>(high, ahead, codes, num_channels, sums);
  }
  StoreScores<kRows>(sums, scales, terms, scores, scores_stride);
}

#endif  // !__AVX512VNNI__

// Adds in the order that the portable target repeats.
inline float ReduceAdd8(__m256 v) {
  const __m128 half = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 pair = _mm_add_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_add_ss(pair, _mm_movehdup_ps(pair)));
}

// Transposes an 8 x 8 tile of 32-bit words in place.
inline void TransposeWords(__m256i (&r)[8]) {
  __m256i t[8];
#pragma GCC unroll 16
  for (int i = 0; i < 8; i += 4) {  // 4x4 blocks inside halves.
    const __m256i a = _mm256_unpacklo_epi32(r[i], r[i + 1]);
    const __m256i b = _mm256_unpackhi_epi32(r[i], r[i + 1]);
    const __m256i c = _mm256_unpacklo_epi32(r[i + 2], r[i + 3]);
    const __m256i d = _mm256_unpackhi_epi32(r[i + 2], r[i + 3]);
    t[i] = _mm256_unpacklo_epi64(a, c);
    t[i + 1] = _mm256_unpackhi_epi64(a, c);
    t[i + 2] = _mm256_unpacklo_epi64(b, d);
    t[i + 3] = _mm256_unpackhi_epi64(b, d);
  }
#pragma GCC unroll 16
  for (int i = 0; i < 4; ++i) {  // Then the halves.
    r[i] = _mm256_permute2x128_si256(t[i], t[i + 4], 0x20);
    r[i + 4] = _mm256_permute2x128_si256(t[i], t[i + 4], 0x31);
  }
}

// Codes + 128 of up to 64 channels: word o of `first` has channels 8o to 8o + 3, of `second` the
// next four.
struct CodeWords {
  __m256i first;
  __m256i second;
};

// Quantizes num_vecs <= 8 registers of x. Adds the squares of the codes' residuals to *left_sq, one
// register after the other.
[[gnu::always_inline]] inline CodeWords QuantizeWords(const float* x, size_t num_vecs, __m256 scale,
                                                      __m256 inverse, __m256* left_sq) {
  __m256i codes[8];
#pragma GCC unroll 16
  for (size_t v = 0; v < 8; ++v) {
    codes[v] = _mm256_setzero_si256();
    if (v >= num_vecs) continue;
    const __m256 values = _mm256_loadu_ps(x + 8 * v);
    // To nearest, ties to even, as no one changes the rounding mode.
    codes[v] = _mm256_min_epi32(_mm256_cvtps_epi32(_mm256_mul_ps(values, inverse)),
                                _mm256_set1_epi32(127));
    const __m256 left = _mm256_sub_ps(values, _mm256_mul_ps(_mm256_cvtepi32_ps(codes[v]), scale));
    *left_sq = _mm256_add_ps(*left_sq, _mm256_mul_ps(left, left));
  }
  // Packing works in halves: the low ones become the first four channels of each line.
  __m256i bytes[2];
#pragma GCC unroll 16
  for (int i = 0; i < 2; ++i) {
    const __m256i a = _mm256_packs_epi32(codes[4 * i], codes[4 * i + 1]);
    const __m256i b = _mm256_packs_epi32(codes[4 * i + 2], codes[4 * i + 3]);
    bytes[i] = _mm256_xor_si256(_mm256_packs_epi16(a, b), _mm256_set1_epi8(-128));
  }
  return {_mm256_permute2x128_si256(bytes[0], bytes[1], 0x20),
          _mm256_permute2x128_si256(bytes[0], bytes[1], 0x31)};
}

// Lines [0, num_lines) of 8 keys: row o of the tile, transposed, is their half of line o.
[[gnu::always_inline]] inline void StoreLines(__m256i (&tile)[8], size_t num_lines,
                                              uint8_t* lines) {
  TransposeWords(tile);
#pragma GCC unroll 16
  for (size_t o = 0; o < 8; ++o) {
    if (o < num_lines) Store32(lines + 64 * o, tile[o]);
  }
}

// num_lines <= 8 lines of eight keys from `first_key` and `channel` on. A constant num_lines makes
// code without branches.
[[gnu::always_inline]] inline void EncodeLines(const BlockRows& keys, size_t first_key,
                                               size_t channel, size_t num_lines,
                                               const PlaneBlock& block, __m256* left_sq) {
  const __m256i mask = _mm256_set1_epi8(15);
  __m256i high_words[8], low_words[8];
  for (size_t j = 0; j < 8; ++j) {
    const size_t key = first_key + j;
    const CodeWords words =
        QuantizeWords(keys.row[key] + channel, num_lines, _mm256_set1_ps(keys.scale[key]),
                      _mm256_set1_ps(keys.inverse[key]), &left_sq[key]);
    const __m256i shifted = _mm256_srli_epi16(words.first, 4);
    high_words[j] =
        _mm256_or_si256(_mm256_and_si256(shifted, mask), _mm256_andnot_si256(mask, words.second));
    const __m256i second = _mm256_slli_epi16(words.second, 4);
    low_words[j] =
        _mm256_or_si256(_mm256_and_si256(words.first, mask), _mm256_andnot_si256(mask, second));
  }
  const size_t at = channel * 8 + first_key * 4;
  StoreLines(high_words, num_lines, block.high + at);
  StoreLines(low_words, num_lines, block.low + at);
}

// Codes of a block whose scales are known.
void EncodeBlock(const BlockRows& keys, size_t num_channels, const PlaneBlock& block) {
  __m256 left_sq[kPlaneKeys];
  for (__m256& sums : left_sq) sums = _mm256_setzero_ps();
  for (size_t channel = 0; channel < num_channels; channel += 64) {
    const size_t num_lines = (num_channels - channel) / 8;
    for (size_t key = 0; key < kPlaneKeys; key += 8) {
      if (num_lines >= 8) {
        EncodeLines(keys, key, channel, 8, block, left_sq);
      } else {
        EncodeLines(keys, key, channel, num_lines, block, left_sq);
      }
    }
  }
  for (size_t key = 0; key < keys.num_keys; ++key) {
    block.residual_sq[key] = ReduceAdd8(left_sq[key]);
  }
}

}  // namespace
}  // namespace attndb::kernels::ATTNDB_TARGET

#endif  // __AVX2__
#endif  // ATTNDB_KERNELS_PLANES_AVX2_INL_H_
