// Internal: the parts of key planes that are written for AVX2. The AVX-512 target has them as well,
// with 256-bit registers.
//
// SumBlock multiplies nibbles (unsigned) by q codes (signed), 32 at a time, into int16: a product
// of two adds up to 2 * 15 * 127 = 3810, so eight of them fit before they are widened.
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

// Four codes of q, for every key.
inline __m256i SpreadCodes(const int8_t* codes) {
  int32_t four;
  __builtin_memcpy(&four, codes, sizeof(four));
  return _mm256_set1_epi32(four);
}

// Adds to int16 sums, or begins them. Once() keeps GCC 12 from adding up products late, in a tree
// of its own, which needs four times the registers there are.
template <bool kBegin>
inline void AddProducts(__m256i nibbles, __m256i four, __m256i* sum) {
  const __m256i products = _mm256_maddubs_epi16(nibbles, four);
  *sum = Once(kBegin ? products : _mm256_add_epi16(*sum, products));
}

// One line of one plane: products of kRows q rows with keys 0..7 (sums[r][0]) and 8..15.
template <size_t kRows, bool kBegin>
inline void AddLine(const uint8_t* line, const Codes<kRows>& codes, size_t channel,
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

// sums[r][half] += weight * (products of kLines lines from `channel` on).
template <size_t kRows, size_t kLines>
inline void AddLines(const uint8_t* plane, size_t ahead, const Codes<kRows>& codes, size_t channel,
                     __m256i weight, __m256i (&sums)[kRows][2]) {
  const uint8_t* const line = plane + channel * 8;
  __m256i narrow[kRows][2];
  Prefetch(line + ahead);
  AddLine<kRows, true>(line, codes, channel, narrow);
#pragma GCC unroll 16
  for (size_t l = 1; l < kLines; ++l) {
    Prefetch(line + ahead + 64 * l);
    AddLine<kRows, false>(line + 64 * l, codes, channel + 8 * l, narrow);
  }
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (size_t half = 0; half < 2; ++half) {
      const __m256i wide = _mm256_madd_epi16(narrow[r][half], weight);
      sums[r][half] = _mm256_add_epi32(sums[r][half], wide);
    }
  }
}

template <size_t kRows>
inline void AddPlane(const uint8_t* plane, size_t ahead, const Codes<kRows>& codes,
                     size_t num_channels, int weight, __m256i (&sums)[kRows][2]) {
  const __m256i weights = _mm256_set1_epi16(static_cast<short>(weight));
  size_t channel = 0;
  for (; channel + 32 <= num_channels; channel += 32) {
    AddLines<kRows, 4>(plane, ahead, codes, channel, weights, sums);
  }
  if (channel < num_channels) AddLines<kRows, 2>(plane, ahead, codes, channel, weights, sums);
}

// to[r * kPlaneKeys + key] of one block: 16 * S_high + S_low, or 32 * S_high for 4 bits. Fetches
// what lies `ahead` bytes further on.
template <int kBits, size_t kRows>
inline void SumBlock(const uint8_t* high, const uint8_t* low, size_t ahead,
                     const Codes<kRows>& codes, size_t num_channels, int32_t* to) {
  __m256i sums[kRows][2];
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) sums[r][0] = sums[r][1] = _mm256_setzero_si256();
  AddPlane<kRows>(high, ahead, codes, num_channels, HighWeight<kBits>(), sums);
  if constexpr (kBits == 8) AddPlane<kRows>(low, ahead, codes, num_channels, 1, sums);
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) {
    Store32(to + r * kPlaneKeys, sums[r][0]);
    Store32(to + r * kPlaneKeys + 8, sums[r][1]);
  }
}

// Scores of a block's sums.
template <size_t kRows>
inline void ScoreBlock(const int32_t* sums, const uint16_t* scales, const RowTerms* terms,
                       float* scores, size_t scores_stride) {
#pragma GCC unroll 16
  for (size_t half = 0; half < 2; ++half) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(scales + 8 * half));
    const __m256i wide = _mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16);
    const __m256 key_scales = Once(_mm256_castsi256_ps(wide));
#pragma GCC unroll 16
    for (size_t r = 0; r < kRows; ++r) {
      const __m256i sum = _mm256_sub_epi32(Load32(sums + r * kPlaneKeys + 8 * half),
                                           _mm256_set1_epi32(terms[r].bias));
      const __m256 factor = _mm256_mul_ps(_mm256_set1_ps(terms[r].scale), key_scales);
      const __m256 product = _mm256_mul_ps(factor, _mm256_cvtepi32_ps(sum));
      _mm256_storeu_ps(scores + r * scores_stride + 8 * half,
                       _mm256_add_ps(product, _mm256_set1_ps(terms[r].offset)));
    }
  }
}

// In the order that the portable target repeats.
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

// Quantizes num_vecs <= 8 registers of x. kResidual: adds to *residual the squares of what codes
// leave of x, each register on top of the one before.
template <bool kResidual>
[[gnu::always_inline]] inline CodeWords QuantizeWords(const float* x, size_t num_vecs, __m256 scale,
                                                      __m256 inverse, __m256* residual) {
  __m256i codes[8];
#pragma GCC unroll 16
  for (size_t v = 0; v < 8; ++v) {
    codes[v] = _mm256_setzero_si256();
    if (v >= num_vecs) continue;
    const __m256 values = _mm256_loadu_ps(x + 8 * v);
    // To nearest, ties to even, as no one changes the rounding mode; packing makes 127 of 128.
    codes[v] = _mm256_cvtps_epi32(_mm256_mul_ps(values, inverse));
    if constexpr (kResidual) {
      const __m256i fitting = _mm256_min_epi32(codes[v], _mm256_set1_epi32(127));
      const __m256 left = _mm256_sub_ps(values, _mm256_mul_ps(_mm256_cvtepi32_ps(fitting), scale));
      *residual = _mm256_add_ps(*residual, _mm256_mul_ps(left, left));
    }
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
template <bool kResidual>
[[gnu::always_inline]] inline void EncodeLines(const BlockRows& keys, size_t first_key,
                                               size_t channel, size_t num_lines, uint8_t* high,
                                               uint8_t* low, __m256* residuals) {
  const __m256i mask = _mm256_set1_epi8(15);
  __m256i high_words[8], low_words[8];
  for (size_t j = 0; j < 8; ++j) {
    const size_t key = first_key + j;
    __m256 residual = kResidual ? residuals[key] : _mm256_setzero_ps();
    const CodeWords words = QuantizeWords<kResidual>(keys.row[key] + channel, num_lines,
                                                     _mm256_set1_ps(keys.scale[key]),
                                                     _mm256_set1_ps(keys.inverse[key]), &residual);
    if (kResidual) residuals[key] = residual;
    const __m256i shifted = _mm256_srli_epi16(words.first, 4);
    high_words[j] =
        _mm256_or_si256(_mm256_and_si256(shifted, mask), _mm256_andnot_si256(mask, words.second));
    const __m256i second = _mm256_slli_epi16(words.second, 4);
    low_words[j] =
        _mm256_or_si256(_mm256_and_si256(words.first, mask), _mm256_andnot_si256(mask, second));
  }
  const size_t at = channel * 8 + first_key * 4;
  StoreLines(high_words, num_lines, high + at);
  if (low != nullptr) StoreLines(low_words, num_lines, low + at);
}

template <bool kResidual>
void EncodeChannels(const BlockRows& keys, size_t num_channels, uint8_t* high, uint8_t* low,
                    __m256* residuals) {
  for (size_t channel = 0; channel < num_channels; channel += 64) {
    const size_t num_lines = (num_channels - channel) / 8;
    for (size_t key = 0; key < kPlaneKeys; key += 8) {
      if (num_lines >= 8) {
        EncodeLines<kResidual>(keys, key, channel, 8, high, low, residuals);
      } else {
        EncodeLines<kResidual>(keys, key, channel, num_lines, high, low, residuals);
      }
    }
  }
}

// Codes of a block whose scales are known.
void EncodeBlock(const BlockRows& keys, size_t num_channels, uint8_t* high, uint8_t* low,
                 float* residual_sq) {
  __m256 residuals[kPlaneKeys];
  if (residual_sq == nullptr) {
    EncodeChannels<false>(keys, num_channels, high, low, residuals);
    return;
  }
  for (__m256& residual : residuals) residual = _mm256_setzero_ps();
  EncodeChannels<true>(keys, num_channels, high, low, residuals);
  for (size_t key = 0; key < keys.num_keys; ++key) residual_sq[key] = ReduceAdd8(residuals[key]);
}

}  // namespace
}  // namespace attndb::kernels::ATTNDB_TARGET

#endif  // __AVX2__
#endif  // ATTNDB_KERNELS_PLANES_AVX2_INL_H_
