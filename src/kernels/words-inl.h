// Internal: registers of bytes and of 16-bit words, for scans of product codes.
//
//   Words16, kWordLanes   a register of kWordLanes unsigned words, twice kLanes.
//   WordsAt StoreWords SetWords AddWords SubWords MaxWords MinWords
//   SubSaturated        0 where the difference is negative.
//   MulLow MulHigh      the two halves of a product.
//   MarkNotBelow(a, b)  kMarks bits a lane, of which the lowest says whether a >= b.
//   HighBytes           each word's upper byte; RaisedBytes: its lower byte, times 256.
//   EvenFloats OddFloats: bfloat16 of even and of odd lanes, as floats.
//   WordsAsFloats(p)    kLanes words of memory, converted.
//   SumOf16             the sum of 16 floats in registers in one order: of those 8 apart first,
//                       then 4, then 2.
//   Choose(a, b, x, y)  x where a > b, else y.
// Threads: values.
#ifndef ATTNDB_KERNELS_WORDS_INL_H_
#define ATTNDB_KERNELS_WORDS_INL_H_

#include "kernels/simd.h"

namespace attndb::kernels::ATTNDB_TARGET {
namespace {

inline constexpr size_t kWordLanes = 2 * kLanes;
inline constexpr size_t kVecsOf16 = 16 / kLanes;

#if defined(__AVX512BW__)

using Words16 = __m512i;

inline Words16 WordsAt(const void* p) { return _mm512_loadu_si512(p); }
inline void StoreWords(void* p, Words16 v) { _mm512_storeu_si512(p, v); }
inline Words16 SetWords(uint16_t x) { return _mm512_set1_epi16(static_cast<int16_t>(x)); }
inline Words16 AddWords(Words16 a, Words16 b) { return _mm512_add_epi16(a, b); }
inline Words16 SubWords(Words16 a, Words16 b) { return _mm512_sub_epi16(a, b); }
inline Words16 SubSaturated(Words16 a, Words16 b) { return _mm512_subs_epu16(a, b); }
inline Words16 MaxWords(Words16 a, Words16 b) { return _mm512_max_epu16(a, b); }
inline Words16 MinWords(Words16 a, Words16 b) { return _mm512_min_epu16(a, b); }
inline Words16 MulLow(Words16 a, Words16 b) { return _mm512_mullo_epi16(a, b); }
inline Words16 MulHigh(Words16 a, Words16 b) { return _mm512_mulhi_epu16(a, b); }
inline constexpr unsigned kMarks = 1;
inline uint32_t MarkNotBelow(Words16 a, Words16 b) { return _mm512_cmpge_epu16_mask(a, b); }
inline Words16 HighBytes(Words16 v) { return _mm512_srli_epi16(v, 8); }
inline Words16 RaisedBytes(Words16 v) { return _mm512_slli_epi16(v, 8); }
inline Vec EvenFloats(Words16 v) { return _mm512_castsi512_ps(_mm512_slli_epi32(v, 16)); }
inline Vec OddFloats(Words16 v) {
  return _mm512_castsi512_ps(_mm512_and_si512(v, _mm512_set1_epi32(-65536)));
}
inline Vec WordsAsFloats(const uint16_t* p) {
  const __m256i raw = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return _mm512_cvtepi32_ps(_mm512_cvtepu16_epi32(raw));
}
inline float SumOf16(const Vec (&v)[kVecsOf16]) {
  const __m256 a = _mm256_add_ps(_mm512_castps512_ps256(v[0]), _mm512_extractf32x8_ps(v[0], 1));
  const __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}
// Sums four registers at once, by halves: two rows share a register, then four do.
inline void SumsOfFour(Vec a, Vec b, Vec c, Vec d, float* sums) {
  const __m512 ab = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44),  //
                                  _mm512_shuffle_f32x4(a, b, 0xee));
  const __m512 cd = _mm512_add_ps(_mm512_shuffle_f32x4(c, d, 0x44),  //
                                  _mm512_shuffle_f32x4(c, d, 0xee));
  const __m512 all = _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88),  //
                                   _mm512_shuffle_f32x4(ab, cd, 0xdd));
  const __m512 pairs = _mm512_add_ps(all, _mm512_permute_ps(all, 0x4e));
  const __m512 done = _mm512_add_ps(pairs, _mm512_permute_ps(pairs, 0xb1));
  const __m512i firsts = _mm512_setr_epi32(0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
  _mm_storeu_ps(sums, _mm512_castps512_ps128(_mm512_permutexvar_ps(firsts, done)));
}
inline Vec Choose(Vec a, Vec b, Vec x, Vec y) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_GT_OQ), y, x);
}

#elif defined(__AVX2__)

using Words16 = __m256i;

inline Words16 WordsAt(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
inline void StoreWords(void* p, Words16 v) { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }
inline Words16 SetWords(uint16_t x) { return _mm256_set1_epi16(static_cast<int16_t>(x)); }
inline Words16 AddWords(Words16 a, Words16 b) { return _mm256_add_epi16(a, b); }
inline Words16 SubWords(Words16 a, Words16 b) { return _mm256_sub_epi16(a, b); }
inline Words16 SubSaturated(Words16 a, Words16 b) { return _mm256_subs_epu16(a, b); }
inline Words16 MaxWords(Words16 a, Words16 b) { return _mm256_max_epu16(a, b); }
inline Words16 MinWords(Words16 a, Words16 b) { return _mm256_min_epu16(a, b); }
inline Words16 MulLow(Words16 a, Words16 b) { return _mm256_mullo_epi16(a, b); }
inline Words16 MulHigh(Words16 a, Words16 b) { return _mm256_mulhi_epu16(a, b); }
inline constexpr unsigned kMarks = 2;
inline uint32_t MarkNotBelow(Words16 a, Words16 b) {
  const __m256i is_not_below = _mm256_cmpeq_epi16(_mm256_max_epu16(a, b), a);
  return static_cast<uint32_t>(_mm256_movemask_epi8(is_not_below)) & 0x55555555u;
}
inline Words16 HighBytes(Words16 v) { return _mm256_srli_epi16(v, 8); }
inline Words16 RaisedBytes(Words16 v) { return _mm256_slli_epi16(v, 8); }
inline Vec EvenFloats(Words16 v) { return _mm256_castsi256_ps(_mm256_slli_epi32(v, 16)); }
inline Vec OddFloats(Words16 v) {
  return _mm256_castsi256_ps(_mm256_and_si256(v, _mm256_set1_epi32(-65536)));
}
inline Vec WordsAsFloats(const uint16_t* p) {
  const __m128i raw = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_cvtepi32_ps(_mm256_cvtepu16_epi32(raw));
}
inline float SumOf16(const Vec (&v)[kVecsOf16]) {
  const __m256 a = _mm256_add_ps(v[0], v[1]);
  const __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}
inline Vec Choose(Vec a, Vec b, Vec x, Vec y) {
  return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_GT_OQ));
}

#else

typedef uint16_t Words16 __attribute__((vector_size(16)));
typedef uint32_t WideWords __attribute__((vector_size(32)));
typedef uint32_t WordPairs __attribute__((vector_size(16)));  // Has as many lanes as Vec.

inline Words16 WordsAt(const void* p) {
  Words16 v;
  __builtin_memcpy(&v, p, sizeof(v));
  return v;
}
inline void StoreWords(void* p, Words16 v) { __builtin_memcpy(p, &v, sizeof(v)); }
inline Words16 SetWords(uint16_t x) { return Words16{x, x, x, x, x, x, x, x}; }
inline Words16 SubSaturated(Words16 a, Words16 b) { return a > b ? a - b : SetWords(0); }
inline Words16 MaxWords(Words16 a, Words16 b) { return a > b ? a : b; }
inline Words16 MinWords(Words16 a, Words16 b) { return a < b ? a : b; }
inline Words16 MulLow(Words16 a, Words16 b) { return a * b; }
inline Words16 MulHigh(Words16 a, Words16 b) {
  const WideWords product =
      __builtin_convertvector(a, WideWords) * __builtin_convertvector(b, WideWords);
  return __builtin_convertvector(product >> 16, Words16);
}
inline constexpr unsigned kMarks = 1;
inline uint32_t MarkNotBelow(Words16 a, Words16 b) {
  uint32_t marks = 0;
  for (unsigned i = 0; i < kWordLanes; ++i) marks |= static_cast<uint32_t>(a[i] >= b[i]) << i;
  return marks;
}
inline Vec EvenFloats(Words16 v) { return (Vec)((WordPairs)v << 16); }
inline Vec OddFloats(Words16 v) { return (Vec)((WordPairs)v & 0xffff0000u); }
inline Vec WordsAsFloats(const uint16_t* p) {
  return Vec{static_cast<float>(p[0]), static_cast<float>(p[1]), static_cast<float>(p[2]),
             static_cast<float>(p[3])};
}
inline float SumOf16(const Vec (&v)[kVecsOf16]) {
  return ReduceAdd(Add(Add(v[0], v[2]), Add(v[1], v[3])));
}
inline Vec Choose(Vec a, Vec b, Vec x, Vec y) { return a > b ? x : y; }

#endif

// SumOf16 of each row.
template <size_t kRows>
[[gnu::always_inline]] inline void SumsOf16(const Vec (&rows)[kRows][kVecsOf16], float* sums) {
#if defined(__AVX512BW__)
  if constexpr (kRows == 4) {
    return SumsOfFour(rows[0][0], rows[1][0], rows[2][0], rows[3][0], sums);
  }
#endif
#pragma GCC unroll 4
  for (size_t r = 0; r < kRows; ++r) sums[r] = SumOf16(rows[r]);
}

}  // namespace
}  // namespace attndb::kernels::ATTNDB_TARGET

#endif  // ATTNDB_KERNELS_WORDS_INL_H_
