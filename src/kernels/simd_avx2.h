// Vectors of 8 floats in AVX2 registers, with FMA and F16C. The names are explained in simd.h.
//
// Threads: values.
#ifndef ATTNDB_KERNELS_SIMD_AVX2_H_
#define ATTNDB_KERNELS_SIMD_AVX2_H_

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/element.h"

#define ATTNDB_TARGET avx2

namespace attndb::kernels::avx2 {
namespace {

using Vec = __m256;
inline constexpr size_t kLanes = 8;
inline constexpr bool kManyRegisters = false;

inline Vec Zero() { return _mm256_setzero_ps(); }
inline Vec Set1(float x) { return _mm256_set1_ps(x); }
inline Vec Load(const float* p) { return _mm256_loadu_ps(p); }
inline Vec LoadFirst(const float* p, size_t n) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_maskload_ps(p, _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), lane));
}
inline void Store(float* p, Vec v) { _mm256_storeu_ps(p, v); }
// A loaded value that several instructions use. GCC 12 would otherwise repeat the load in each of
// them, and load ports are the first limit of these kernels.
template <typename V>
inline V Once(V v) {
  __asm__("" : "+x"(v));
  return v;
}
inline Vec Add(Vec a, Vec b) { return _mm256_add_ps(a, b); }
inline Vec Sub(Vec a, Vec b) { return _mm256_sub_ps(a, b); }
inline Vec Mul(Vec a, Vec b) { return _mm256_mul_ps(a, b); }
inline Vec Div(Vec a, Vec b) { return _mm256_div_ps(a, b); }
inline Vec Max(Vec a, Vec b) { return _mm256_max_ps(a, b); }
inline Vec Min(Vec a, Vec b) { return _mm256_min_ps(a, b); }
inline Vec Fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
inline Vec NegFma(Vec a, Vec b, Vec c) { return _mm256_fnmadd_ps(a, b, c); }
inline Vec Round(Vec v) {
  return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
// In two steps, so that a denormal result is reached through normal factors.
inline Vec TimesPow2(Vec v, Vec n) {
  const __m256i whole = _mm256_cvtps_epi32(n);
  const __m256i first = _mm256_srai_epi32(whole, 1);
  const __m256i second = _mm256_sub_epi32(whole, first);
  const __m256i bias = _mm256_set1_epi32(127);
  const __m256 f = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(first, bias), 23));
  const __m256 s = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(second, bias), 23));
  return _mm256_mul_ps(_mm256_mul_ps(v, f), s);
}

inline Vec TimesNormalPow2(Vec v, Vec n) {
  const __m256i exponent = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
  return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(v), exponent));
}

inline Vec LoadRow(const float* p) { return _mm256_loadu_ps(p); }
inline Vec LoadRow(const Float16* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
inline Vec LoadRow(const BFloat16* p) {
  const __m128i raw = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(raw), 16));
}
inline Vec LoadRow(const Int8* p) {
  const __m128i raw = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(raw));
}

template <typename T>
inline void WidenPair(const T* p, Vec* a, Vec* b) {
  *a = LoadRow(p);
  *b = LoadRow(p + kLanes);
}
inline void WidenPair(const BFloat16* p, Vec* a, Vec* b) {
  const __m256i raw = Once(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  *a = _mm256_castsi256_ps(_mm256_unpacklo_epi16(_mm256_setzero_si256(), raw));
  *b = _mm256_castsi256_ps(_mm256_unpackhi_epi16(_mm256_setzero_si256(), raw));
}
// One of the two vectors of WidenPair. Their common source is loaded twice, and occupies no
// register meanwhile.
template <int kHalf, typename T>
inline Vec WidenHalf(const T* p) {
  return LoadRow(p + kHalf * kLanes);
}
template <int kHalf>
inline Vec WidenHalf(const BFloat16* p) {
  const __m256i raw = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return _mm256_castsi256_ps(kHalf == 0 ? _mm256_unpacklo_epi16(_mm256_setzero_si256(), raw)
                                        : _mm256_unpackhi_epi16(_mm256_setzero_si256(), raw));
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
// Quarters 0 2 and 1 3: the order after unpacking. The permutation is its own inverse.
inline void LoadPair(const BFloat16*, const float* p, Vec* a, Vec* b) {
  const __m256 lo = Load(p), hi = Load(p + kLanes);
  *a = _mm256_permute2f128_ps(lo, hi, 0x20);
  *b = _mm256_permute2f128_ps(lo, hi, 0x31);
}
inline void StorePair(const BFloat16*, float* p, Vec a, Vec b) {
  Store(p, _mm256_permute2f128_ps(a, b, 0x20));
  Store(p + kLanes, _mm256_permute2f128_ps(a, b, 0x31));
}
inline constexpr bool kHasQuads = false;

inline float First(Vec v) { return _mm256_cvtss_f32(v); }
inline float ReduceAdd(Vec v) {
  const __m128 half = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 pair = _mm_add_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_add_ss(pair, _mm_movehdup_ps(pair)));
}
inline float ReduceMax(Vec v) {
  const __m128 half = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 pair = _mm_max_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_max_ss(pair, _mm_movehdup_ps(pair)));
}

inline Vec KeepLanes(Vec v, Vec other, int begin, int end) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i drop = _mm256_or_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32(begin), lane),
                                       _mm256_cmpgt_epi32(lane, _mm256_set1_epi32(end - 1)));
  return _mm256_blendv_ps(v, other, _mm256_castsi256_ps(drop));
}

inline void StoreSums4(Vec a0, Vec a1, Vec a2, Vec a3, float* out) {
  // Not by _mm256_hadd_ps, which costs twice the instructions it saves.
  const __m256 t = _mm256_add_ps(_mm256_unpacklo_ps(a0, a1), _mm256_unpackhi_ps(a0, a1));
  const __m256 u = _mm256_add_ps(_mm256_unpacklo_ps(a2, a3), _mm256_unpackhi_ps(a2, a3));
  const __m256 s = _mm256_add_ps(_mm256_shuffle_ps(t, u, 0x44), _mm256_shuffle_ps(t, u, 0xEE));
  _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1)));
}

inline void Transpose(Vec (&r)[kLanes]) {
  __m256 t[8];
  for (int i = 0; i < 2; ++i) {  // 4x4 blocks inside halves.
    const __m256 a = _mm256_unpacklo_ps(r[4 * i], r[4 * i + 1]);
    const __m256 b = _mm256_unpackhi_ps(r[4 * i], r[4 * i + 1]);
    const __m256 c = _mm256_unpacklo_ps(r[4 * i + 2], r[4 * i + 3]);
    const __m256 d = _mm256_unpackhi_ps(r[4 * i + 2], r[4 * i + 3]);
    t[4 * i] = _mm256_shuffle_ps(a, c, _MM_SHUFFLE(1, 0, 1, 0));
    t[4 * i + 1] = _mm256_shuffle_ps(a, c, _MM_SHUFFLE(3, 2, 3, 2));
    t[4 * i + 2] = _mm256_shuffle_ps(b, d, _MM_SHUFFLE(1, 0, 1, 0));
    t[4 * i + 3] = _mm256_shuffle_ps(b, d, _MM_SHUFFLE(3, 2, 3, 2));
  }
  for (int j = 0; j < 4; ++j) {  // Then the halves.
    r[j] = _mm256_permute2f128_ps(t[j], t[4 + j], 0x20);
    r[4 + j] = _mm256_permute2f128_ps(t[j], t[4 + j], 0x31);
  }
}

inline void StoreRow(float* p, Vec v) { _mm256_storeu_ps(p, v); }
inline void StoreRow(Float16* p, Vec v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
inline void StoreRow(BFloat16* p, Vec v) {
  const __m256i bits = _mm256_castps_si256(v);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i bias = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
  const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, bias), 16);
  const __m256i quiet = _mm256_or_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(0x40));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  const __m256i narrow = _mm256_blendv_epi8(rounded, quiet, nan);
  _mm_storeu_si128(
      reinterpret_cast<__m128i*>(p),
      _mm_packus_epi32(_mm256_castsi256_si128(narrow), _mm256_extracti128_si256(narrow, 1)));
}

inline Vec Abs(Vec v) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v); }
inline Vec ZeroBelow(Vec v, Vec limit) {
  return _mm256_and_ps(v, _mm256_cmp_ps(v, limit, _CMP_NLT_UQ));
}
inline uint32_t MaskNotBelow(Vec v, Vec limit) {
  return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(v, limit, _CMP_NLT_UQ)));
}
inline uint32_t MaskNaN(Vec v) {
  return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(v, v, _CMP_UNORD_Q)));
}
// The lanes of each mask, in order: a loop over set bits would be mispredicted at its end.
struct LanesOfMasks {
  alignas(64) uint8_t lanes[256][8] = {};
  constexpr LanesOfMasks() {
    for (unsigned mask = 0; mask < 256; ++mask) {
      for (unsigned lane = 0, count = 0; lane < 8; ++lane) {
        if ((mask >> lane & 1) != 0) lanes[mask][count++] = static_cast<uint8_t>(lane);
      }
    }
  }
};
inline constexpr LanesOfMasks kLanesOfMasks;
inline __m256i LanesOf(uint32_t mask) {
  const auto* const lanes = reinterpret_cast<const __m128i*>(kLanesOfMasks.lanes[mask]);
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64(lanes));
}
inline size_t StoreIndices(uint32_t mask, uint32_t first, uint32_t* indices) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(indices),
                      _mm256_add_epi32(LanesOf(mask), _mm256_set1_epi32(static_cast<int>(first))));
  return static_cast<size_t>(__builtin_popcount(mask));
}
inline void StoreSelected(uint32_t mask, Vec v, float* to) {
  _mm256_storeu_ps(to, _mm256_permutevar8x32_ps(v, LanesOf(mask)));
}

using Bits = __m256i;
inline Bits LoadBits(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
inline Bits Xor(Bits a, Bits b) { return _mm256_xor_si256(a, b); }

}  // namespace
}  // namespace attndb::kernels::avx2

#endif  // __AVX2__
#endif  // ATTNDB_KERNELS_SIMD_AVX2_H_
