// Internal: Walsh-Hadamard transforms of rows.
//
// Stages go from distance 1 up on every target, and 1 / sqrt(p) is multiplied in with the signs, so
// that all give the same bits and no sum overflows that the result does not. Distances below
// kHadamardTile stay in registers.
#ifndef ATTNDB_KERNELS_HADAMARD_INL_H_
#define ATTNDB_KERNELS_HADAMARD_INL_H_

#include "kernels/simd.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace attndb::kernels::ATTNDB_TARGET {
namespace {

#if defined(__AVX2__)

// All 16 registers: a few spills cost no more than another pass over memory.
inline constexpr size_t kHadamardTile = 128;

// In each lane: the sum of the lane and its partner, or the difference if it is the upper one of
// the two.
inline __m256 LaneStage(__m256 v, __m256 partner, __m256 upper) {
  return _mm256_add_ps(partner, _mm256_xor_ps(v, upper));
}

// Signs and all stages inside kVecs registers.
template <size_t kVecs>
inline void HadamardTile(float* x, const float* signs, __m256 norm) {
  const __m256 upper1 = _mm256_setr_ps(0, -0.0f, 0, -0.0f, 0, -0.0f, 0, -0.0f);
  const __m256 upper2 = _mm256_setr_ps(0, 0, -0.0f, -0.0f, 0, 0, -0.0f, -0.0f);
  const __m256 upper4 = _mm256_setr_ps(0, 0, 0, 0, -0.0f, -0.0f, -0.0f, -0.0f);
  __m256 v[kVecs];
#pragma GCC unroll 16
  for (size_t i = 0; i < kVecs; ++i) {
    const __m256 factor = _mm256_mul_ps(_mm256_loadu_ps(signs + 8 * i), norm);
    v[i] = _mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), factor);
    v[i] = LaneStage(v[i], _mm256_permute_ps(v[i], 0xB1), upper1);
    v[i] = LaneStage(v[i], _mm256_permute_ps(v[i], 0x4E), upper2);
    v[i] = LaneStage(v[i], _mm256_permute2f128_ps(v[i], v[i], 0x01), upper4);
  }
#pragma GCC unroll 16
  for (size_t h = 1; h < kVecs; h *= 2) {
#pragma GCC unroll 16
    for (size_t i = 0; i < kVecs; ++i) {
      if ((i & h) != 0) continue;
      const __m256 a = v[i], b = v[i + h];
      v[i] = _mm256_add_ps(a, b);
      v[i + h] = _mm256_sub_ps(a, b);
    }
  }
#pragma GCC unroll 16
  for (size_t i = 0; i < kVecs; ++i) _mm256_storeu_ps(x + 8 * i, v[i]);
}

// Signs and the first stages of `size` channels; returns the distance of the next stage.
inline size_t HadamardTiles(float* x, const float* signs, float norm, size_t size) {
  const __m256 norms = _mm256_set1_ps(norm);
  if (size == 16) HadamardTile<2>(x, signs, norms);
  if (size == 32) HadamardTile<4>(x, signs, norms);
  if (size == 64) HadamardTile<8>(x, signs, norms);
  for (size_t i = 0; i + kHadamardTile <= size; i += kHadamardTile) {
    HadamardTile<kHadamardTile / 8>(x + i, signs + i, norms);
  }
  return size < kHadamardTile ? size : kHadamardTile;
}

#else

inline size_t HadamardTiles(float* x, const float* signs, float norm, size_t size) {
  for (size_t i = 0; i < size; ++i) x[i] *= signs[i] * norm;
  for (size_t h = 1; h < kLanes; h *= 2) {
    for (size_t i = 0; i < size; ++i) {
      if ((i & h) != 0) continue;
      const float a = x[i], b = x[i + h];
      x[i] = a + b;
      x[i + h] = a - b;
    }
  }
  return kLanes;
}

#endif

// Signs and transform of `size` channels, a power of two.
inline void Hadamard(float* x, const float* signs, float norm, size_t size) {
  for (size_t h = HadamardTiles(x, signs, norm, size); h < size; h *= 2) {
    for (size_t i = 0; i < size; i += 2 * h) {
      for (size_t j = i; j < i + h; j += kLanes) {
        const Vec a = Load(x + j), b = Load(x + j + h);
        Store(x + j, Add(a, b));
        Store(x + j + h, Sub(a, b));
      }
    }
  }
}

void HadamardRows(float* rows, size_t stride, size_t num_rows, size_t num_channels,
                  const float* signs) {
  size_t size = 16;
  float norm = 0.25f;
  for (; 4 * size <= num_channels; size *= 4) norm *= 0.5f;
  if (2 * size <= num_channels) {
    size *= 2;
    norm *= 0.70710678118654752f;
  }
  const size_t rest = num_channels - size;
  for (float* x = rows; num_rows > 0; --num_rows, x += stride) {
    Hadamard(x, signs, norm, size);
    if (rest == 0) continue;
    for (size_t i = size; i < num_channels; ++i) x[i] *= signs[i];
    const float* const second = signs + num_channels;
    for (size_t i = 0; i < rest; ++i) x[i] *= second[i];
    Hadamard(x + rest, second + rest, norm, size);
  }
}

}  // namespace
}  // namespace attndb::kernels::ATTNDB_TARGET

#endif  // ATTNDB_KERNELS_HADAMARD_INL_H_
