// Vectors of 16 floats in AVX-512 registers. Same names in every simd_*.h; see simd_portable.h.
//
// Threads: values.
#ifndef ATTNDB_KERNELS_SIMD_AVX512_H_
#define ATTNDB_KERNELS_SIMD_AVX512_H_

#if defined(__AVX512F__)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/element.h"

#if defined(ATTNDB_KERNELS_TARGET_AVX512VNNI)
#define ATTNDB_TARGET avx512vnni
#else
#define ATTNDB_TARGET avx512
#endif

namespace attndb::kernels::ATTNDB_TARGET {
namespace {

using Vec = __m512;
inline constexpr size_t kLanes = 16;
inline constexpr bool kManyRegisters = true;  // 32 of them; else 16.

inline Vec Zero() { return _mm512_setzero_ps(); }
inline Vec Set1(float x) { return _mm512_set1_ps(x); }
inline Vec Load(const float* p) { return _mm512_loadu_ps(p); }
// The first n lanes, n <= kLanes; 0 in the others.
inline Vec LoadFirst(const float* p, size_t n) {
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << n) - 1), p);
}
inline void Store(float* p, Vec v) { _mm512_storeu_ps(p, v); }
// A loaded value that several instructions use. GCC 12 would otherwise repeat the load in each of
// them, and load ports are the first limit of these kernels.
template <typename V>
inline V Once(V v) {
  __asm__("" : "+v"(v));
  return v;
}
inline Vec Add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
inline Vec Sub(Vec a, Vec b) { return _mm512_sub_ps(a, b); }
inline Vec Mul(Vec a, Vec b) { return _mm512_mul_ps(a, b); }
inline Vec Div(Vec a, Vec b) { return _mm512_div_ps(a, b); }
inline Vec Max(Vec a, Vec b) { return _mm512_max_ps(a, b); }
inline Vec Min(Vec a, Vec b) { return _mm512_min_ps(a, b); }
inline Vec Fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
inline Vec NegFma(Vec a, Vec b, Vec c) { return _mm512_fnmadd_ps(a, b, c); }
inline Vec Round(Vec v) {
  return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
inline Vec TimesPow2(Vec v, Vec n) { return _mm512_scalef_ps(v, n); }
inline Vec TimesNormalPow2(Vec v, Vec n) { return _mm512_scalef_ps(v, n); }

inline Vec LoadRow(const float* p) { return _mm512_loadu_ps(p); }
inline Vec LoadRow(const Float16* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline Vec LoadRow(const BFloat16* p) {
  const __m256i raw = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(raw), 16));
}
inline Vec LoadRow(const Int8* p) {
  const __m128i raw = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(raw));
}

// Two registers of consecutive elements, widened the cheapest way, in an order of the type's own;
// LoadPair and StorePair of floats are the same order, so sums may stay in it.
template <typename T>
inline void WidenPair(const T* p, Vec* a, Vec* b) {
  *a = LoadRow(p);
  *b = LoadRow(p + kLanes);
}
// One load and two of the cheapest shuffles, where LoadRow takes two shuffles and two shifts.
inline void WidenPair(const BFloat16* p, Vec* a, Vec* b) {
  const __m512i raw = Once(_mm512_loadu_si512(p));
  *a = _mm512_castsi512_ps(_mm512_unpacklo_epi16(_mm512_setzero_si512(), raw));
  *b = _mm512_castsi512_ps(_mm512_unpackhi_epi16(_mm512_setzero_si512(), raw));
}
template <typename T>
inline void LoadPair(const T*, const float* p, Vec* a, Vec* b) {
  *a = Load(p);
  *b = Load(p + kLanes);
}
template <typename T>
inline void StorePair(const T*, float* p, Vec a, Vec b) {
  Store(p, a);
  Store(p + kLanes, b);
}
// Quarters 0 2 4 6 and 1 3 5 7: the order after unpacking.
inline void LoadPair(const BFloat16*, const float* p, Vec* a, Vec* b) {
  const __m512 lo = Load(p), hi = Load(p + kLanes);
  *a = _mm512_shuffle_f32x4(lo, hi, _MM_SHUFFLE(2, 0, 2, 0));
  *b = _mm512_shuffle_f32x4(lo, hi, _MM_SHUFFLE(3, 1, 3, 1));
}
inline void StorePair(const BFloat16*, float* p, Vec a, Vec b) {
  const __m512i lo = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
  const __m512i hi = _mm512_add_epi32(lo, _mm512_set1_epi32(8));
  Store(p, _mm512_permutex2var_ps(a, lo, b));
  Store(p + kLanes, _mm512_permutex2var_ps(a, hi, b));
}

inline float First(Vec v) { return _mm512_cvtss_f32(v); }
inline float ReduceAdd(Vec v) { return _mm512_reduce_add_ps(v); }
inline float ReduceMax(Vec v) { return _mm512_reduce_max_ps(v); }

// Lanes [begin, end) of `v`, `other` elsewhere. begin and end may lie outside the register.
inline Vec KeepLanes(Vec v, Vec other, int begin, int end) {
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __mmask16 keep = _mm512_cmpge_epi32_mask(lane, _mm512_set1_epi32(begin)) &
                         _mm512_cmplt_epi32_mask(lane, _mm512_set1_epi32(end));
  return _mm512_mask_blend_ps(keep, other, v);
}

// out[j] = sum of the lanes of a[j], j < 4: a 4x4 transposition of partial sums in each quarter.
inline void StoreSums4(Vec a0, Vec a1, Vec a2, Vec a3, float* out) {
  const __m512 s01 = _mm512_add_ps(_mm512_unpacklo_ps(a0, a1), _mm512_unpackhi_ps(a0, a1));
  const __m512 s23 = _mm512_add_ps(_mm512_unpacklo_ps(a2, a3), _mm512_unpackhi_ps(a2, a3));
  const __m512 s = _mm512_add_ps(_mm512_shuffle_ps(s01, s23, _MM_SHUFFLE(1, 0, 1, 0)),
                                 _mm512_shuffle_ps(s01, s23, _MM_SHUFFLE(3, 2, 3, 2)));
  const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(s), _mm512_extractf32x8_ps(s, 1));
  _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1)));
}

// Transposes a 16 x 16 tile in place.
inline void Transpose(Vec (&r)[kLanes]) {
  __m512 t[16];
  for (int i = 0; i < 4; ++i) {  // 4x4 blocks inside quarters.
    const __m512 a = _mm512_unpacklo_ps(r[4 * i], r[4 * i + 1]);
    const __m512 b = _mm512_unpackhi_ps(r[4 * i], r[4 * i + 1]);
    const __m512 c = _mm512_unpacklo_ps(r[4 * i + 2], r[4 * i + 3]);
    const __m512 d = _mm512_unpackhi_ps(r[4 * i + 2], r[4 * i + 3]);
    t[4 * i] = _mm512_shuffle_ps(a, c, _MM_SHUFFLE(1, 0, 1, 0));
    t[4 * i + 1] = _mm512_shuffle_ps(a, c, _MM_SHUFFLE(3, 2, 3, 2));
    t[4 * i + 2] = _mm512_shuffle_ps(b, d, _MM_SHUFFLE(1, 0, 1, 0));
    t[4 * i + 3] = _mm512_shuffle_ps(b, d, _MM_SHUFFLE(3, 2, 3, 2));
  }
  for (int j = 0; j < 4; ++j) {  // Then the quarters themselves.
    const __m512 a = _mm512_shuffle_f32x4(t[j], t[4 + j], 0x44);
    const __m512 b = _mm512_shuffle_f32x4(t[j], t[4 + j], 0xEE);
    const __m512 c = _mm512_shuffle_f32x4(t[8 + j], t[12 + j], 0x44);
    const __m512 d = _mm512_shuffle_f32x4(t[8 + j], t[12 + j], 0xEE);
    r[j] = _mm512_shuffle_f32x4(a, c, 0x88);
    r[4 + j] = _mm512_shuffle_f32x4(a, c, 0xDD);
    r[8 + j] = _mm512_shuffle_f32x4(b, d, 0x88);
    r[12 + j] = _mm512_shuffle_f32x4(b, d, 0xDD);
  }
}

// Narrowed to nearest, ties to even; the same bits as float_bits-inl.h.
inline void StoreRow(float* p, Vec v) { _mm512_storeu_ps(p, v); }
inline void StoreRow(Float16* p, Vec v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
inline void StoreRow(BFloat16* p, Vec v) {
  const __m512i bits = _mm512_castps_si512(v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i bias = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
  __m512i narrow = _mm512_srli_epi32(_mm512_add_epi32(bits, bias), 16);
  const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
  narrow = _mm512_mask_or_epi32(narrow, nan, _mm512_srli_epi32(bits, 16), _mm512_set1_epi32(0x40));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(narrow));
}

inline Vec Abs(Vec v) { return _mm512_abs_ps(v); }
// The lanes that are not less than the lanes of `limit`, 0 elsewhere.
inline Vec ZeroBelow(Vec v, Vec limit) {
  return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(v, limit, _CMP_NLT_UQ), v);
}
// Bit i: lane i is not less than lane i of `limit` (so NaN counts).
inline uint32_t MaskNotBelow(Vec v, Vec limit) { return _mm512_cmp_ps_mask(v, limit, _CMP_NLT_UQ); }
inline uint32_t MaskNaN(Vec v) { return _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q); }
// Writes the lanes whose bit is set, side by side; may write kLanes.
inline void StoreSelected(uint32_t mask, Vec v, float* to) {
  // Compressing in the register: the form that stores to memory is microcode on Zen 4.
  const __m512 packed = _mm512_maskz_compress_ps(static_cast<__mmask16>(mask), v);
  // A whole register at any address takes Zen 4 three cycles to store, half of one a good one.
  _mm256_storeu_ps(to, _mm512_castps512_ps256(packed));
  if (__builtin_popcount(mask) > 8) _mm256_storeu_ps(to + 8, _mm512_extractf32x8_ps(packed, 1));
}
// Writes first + i for each set bit i and returns how many; may write kLanes.
inline size_t StoreIndices(uint32_t mask, uint32_t first, uint32_t* indices) {
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i index = _mm512_add_epi32(lane, _mm512_set1_epi32(static_cast<int>(first)));
  StoreSelected(mask, _mm512_castsi512_ps(index), reinterpret_cast<float*>(indices));
  return static_cast<size_t>(__builtin_popcount(mask));
}

inline constexpr bool kHasQuads = true;  // See quads_avx512-inl.h.

using Bits = __m512i;
inline Bits LoadBits(const void* p) { return _mm512_loadu_si512(p); }
inline Bits Xor(Bits a, Bits b) { return _mm512_xor_si512(a, b); }

}  // namespace
}  // namespace attndb::kernels::ATTNDB_TARGET

#endif  // __AVX512F__
#endif  // ATTNDB_KERNELS_SIMD_AVX512_H_
