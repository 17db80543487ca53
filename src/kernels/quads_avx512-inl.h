// Internal: inner products by quads, AVX-512 and 16-bit elements.
//
// A quad is 32 elements of four keys as eight vectors, each with the same few dims of all four.
// Sums of products then end up with four lanes per key instead of sixteen: a quarter of the
// reductions, and widening costs one instruction per vector. Reductions limit groups of three and
// more q rows; memory limits smaller ones.
//
// TransposePairs works on pairs of elements (32 bits); WidenPairs makes vectors 2s and 2s + 1 of
// word s; QuadDim tells which of the 32 dims is in lane `lane` of vector `v`.
#ifndef ATTNDB_KERNELS_QUADS_AVX512_INL_H_
#define ATTNDB_KERNELS_QUADS_AVX512_INL_H_

#include "kernels/dot-inl.h"

#if defined(ATTNDB_KERNELS_TARGET_AVX512)

namespace attndb::kernels::ATTNDB_TARGET {
namespace {

using Words = __m512i;
inline Words LoadWords(const void* p) { return Once(_mm512_loadu_si512(p)); }
inline Words LoadHalfWords(const void* p) { return Once(_mm512_maskz_loadu_epi64(0x0f, p)); }
inline void TransposePairs(Words (&r)[4]) {
  const __m512i a = _mm512_unpacklo_epi32(r[0], r[1]);
  const __m512i b = _mm512_unpackhi_epi32(r[0], r[1]);
  const __m512i c = _mm512_unpacklo_epi32(r[2], r[3]);
  const __m512i d = _mm512_unpackhi_epi32(r[2], r[3]);
  r[0] = _mm512_unpacklo_epi64(a, c);
  r[1] = _mm512_unpackhi_epi64(a, c);
  r[2] = _mm512_unpacklo_epi64(b, d);
  r[3] = _mm512_unpackhi_epi64(b, d);
}
inline void WidenPairs(const BFloat16*, Words word, Vec* a, Vec* b) {
  *a = _mm512_castsi512_ps(_mm512_slli_epi32(word, 16));
  *b =
      _mm512_castsi512_ps(_mm512_and_si512(word, _mm512_set1_epi32(static_cast<int>(0xffff0000u))));
}
constexpr int QuadDim(const BFloat16*, int v, int lane) {
  return 2 * (lane / 4 * 4 + v / 2) + v % 2;
}
inline void WidenPairs(const Float16*, Words word, Vec* a, Vec* b) {
  *a = _mm512_cvtph_ps(_mm512_castsi512_si256(word));
  *b = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(word, 1));
}
constexpr int QuadDim(const Float16*, int v, int lane) {
  return 2 * ((v % 2 * 2 + lane / 8) * 4 + v / 2) + lane % 2;
}
// lo[0, 8) = scores of the quads summed in a0 and a1; hi[0, 8) = the same for b0 and b1.
inline void StoreQuadSums(const BFloat16*, Vec a0, Vec a1, Vec b0, Vec b1, float* lo, float* hi) {
  const __m512 a =
      _mm512_add_ps(_mm512_shuffle_f32x4(a0, a1, 0x44), _mm512_shuffle_f32x4(a0, a1, 0xEE));
  const __m512 b =
      _mm512_add_ps(_mm512_shuffle_f32x4(b0, b1, 0x44), _mm512_shuffle_f32x4(b0, b1, 0xEE));
  const __m512 sums =
      _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xDD));
  _mm256_storeu_ps(lo, _mm512_castps512_ps256(sums));
  _mm256_storeu_ps(hi, _mm512_extractf32x8_ps(sums, 1));
}
inline void StoreQuadSums(const Float16*, Vec a0, Vec a1, Vec b0, Vec b1, float* lo, float* hi) {
  const __m512 a =
      _mm512_add_ps(_mm512_shuffle_f32x4(a0, a1, 0x44), _mm512_shuffle_f32x4(a0, a1, 0xEE));
  const __m512 b =
      _mm512_add_ps(_mm512_shuffle_f32x4(b0, b1, 0x44), _mm512_shuffle_f32x4(b0, b1, 0xEE));
  const __m512 mixed = _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xDD));
  // By quarters now: a k0 k1, b k0 k1 | a k2 k3, b k2 k3 | and so for the second quad.
  const __m512i order = _mm512_setr_epi32(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
  const __m512 sums = _mm512_permutexvar_ps(order, mixed);
  _mm256_storeu_ps(lo, _mm512_castps512_ps256(sums));
  _mm256_storeu_ps(hi, _mm512_extractf32x8_ps(sums, 1));
}

// The order in which the eight vectors of a quad hold 32 dims of q.
template <typename T>
struct QuadOrder {
  alignas(64) int dims[8][kLanes];
  constexpr QuadOrder() : dims() {
    for (int v = 0; v < 8; ++v) {
      for (int lane = 0; lane < 16; ++lane) {
        dims[v][lane] = QuadDim(static_cast<const T*>(nullptr), v, lane);
      }
    }
  }
};
template <typename T>
inline constexpr QuadOrder<T> kQuadOrder;

template <typename T>
inline void SpreadQuery(const float* q, size_t num_elements, float* lanes) {
  for (size_t i = 0; i < num_elements; i += 32) {
    const Vec lo = Load(q + i);
    const Vec hi = i + kLanes < num_elements ? Load(q + i + kLanes) : Zero();
    for (size_t v = 0; v < 8; ++v) {
      const __m512i order = _mm512_load_si512(kQuadOrder<T>.dims[v]);
      Store(lanes + 4 * i + v * kLanes, _mm512_permutex2var_ps(lo, order, hi));
    }
  }
}

// The lanes of a quad's first key. FMAs sum each of them. The four sums of a key are then added in
// one tree (StoreQuadSums): lanes 0 and 2, lanes 1 and 3, and both sums.
constexpr int QuadLane(const BFloat16*, int i) { return 4 * i; }
constexpr int QuadLane(const Float16*, int i) { return i / 2 * 8 + i % 2; }

// One step of DotQuads: 32 elements of two quads, or 16 at the end of a row.
template <size_t kRows, bool kHalf, typename Group>
[[gnu::always_inline]] inline void AddQuads(const Group& keys, size_t i, const float* q,
                                            size_t q_stride, Vec (&sums)[kRows][2]) {
  Words quad0[4], quad1[4];
#pragma GCC unroll 16
  for (size_t j = 0; j < 4; ++j) {
    quad0[j] = kHalf ? LoadHalfWords(keys[j] + i) : LoadWords(keys[j] + i);
    quad1[j] = kHalf ? LoadHalfWords(keys[4 + j] + i) : LoadWords(keys[4 + j] + i);
  }
  TransposePairs(quad0);
  TransposePairs(quad1);
#pragma GCC unroll 16
  for (size_t s = 0; s < 4; ++s) {
    Vec key0[2], key1[2];
    WidenPairs(keys[0], quad0[s], &key0[0], &key0[1]);
    WidenPairs(keys[0], quad1[s], &key1[0], &key1[1]);
    Prefetch(keys.Ahead(2 * s) + i);
    Prefetch(keys.Ahead(2 * s + 1) + i);
#pragma GCC unroll 16
    for (size_t h = 0; h < 2; ++h) {
#pragma GCC unroll 16
      for (size_t r = 0; r < kRows; ++r) {
        const Vec q_part = Once(Load(q + r * q_stride + 4 * i + (2 * s + h) * kLanes));
        sums[r][0] = Fma(q_part, key0[h], sums[r][0]);
        sums[r][1] = Fma(q_part, key1[h], sums[r][1]);
      }
    }
  }
}

// scores[r * kTile + j] = q_r . keys[j] for eight keys: two quads.
template <size_t kRows, typename Group>
[[gnu::always_inline]] inline void DotQuads(const Group& keys, const float* q, size_t q_stride,
                                            size_t num_elements, float* scores) {
  Vec sums[kRows][2];
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) sums[r][0] = sums[r][1] = Zero();
  size_t i = 0;
  for (; i + 32 <= num_elements; i += 32) AddQuads<kRows, false>(keys, i, q, q_stride, sums);
  if (i < num_elements) AddQuads<kRows, true>(keys, i, q, q_stride, sums);
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; r += 2) {
    const size_t next = r + 1 < kRows ? r + 1 : r;
    StoreQuadSums(keys[0], sums[r][0], sums[r][1], sums[next][0], sums[next][1], scores + r * kTile,
                  scores + next * kTile);
  }
}

}  // namespace
}  // namespace attndb::kernels::ATTNDB_TARGET

#endif  // ATTNDB_KERNELS_TARGET_AVX512
#endif  // ATTNDB_KERNELS_QUADS_AVX512_INL_H_
