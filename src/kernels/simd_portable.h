// Vectors of 4 floats in plain C++ (the compilers' vector extension): every CPU. Names: simd.h.
//
// Threads: values.
#ifndef ATTNDB_KERNELS_SIMD_PORTABLE_H_
#define ATTNDB_KERNELS_SIMD_PORTABLE_H_

#include <cstddef>
#include <cstdint>

#include "kernels/element.h"
#include "kernels/float_bits-inl.h"

#define ATTNDB_TARGET portable

namespace attndb::kernels::portable {
namespace {

typedef float Vec __attribute__((vector_size(16)));
inline constexpr size_t kLanes = 4;
inline constexpr bool kManyRegisters = false;

inline Vec Zero() { return Vec{0, 0, 0, 0}; }
inline Vec Set1(float x) { return Vec{x, x, x, x}; }
inline Vec Load(const float* p) {
  Vec v;
  __builtin_memcpy(&v, p, sizeof(v));
  return v;
}
inline Vec LoadFirst(const float* p, size_t n) {
  Vec v = Zero();
  __builtin_memcpy(&v, p, n * sizeof(float));
  return v;
}
inline void Store(float* p, Vec v) { __builtin_memcpy(p, &v, sizeof(v)); }
template <typename V>
inline V Once(V v) {
  return v;
}
inline Vec Add(Vec a, Vec b) { return a + b; }
inline Vec Sub(Vec a, Vec b) { return a - b; }
inline Vec Mul(Vec a, Vec b) { return a * b; }
inline Vec Div(Vec a, Vec b) { return a / b; }
inline Vec Max(Vec a, Vec b) { return a > b ? a : b; }
inline Vec Min(Vec a, Vec b) { return a < b ? a : b; }
inline Vec Fma(Vec a, Vec b, Vec c) { return a * b + c; }
inline Vec NegFma(Vec a, Vec b, Vec c) { return c - a * b; }
// Adding 1.5 * 2^23 leaves no bits for the fraction; |v| < 2^22.
inline Vec Round(Vec v) {
  const Vec magic = Set1(12582912.0f);
  return (v + magic) - magic;
}
inline float Pow2(int n) { return FloatOfBits(static_cast<uint32_t>(n + 127) << 23); }
// In two steps, so that a denormal result is reached through normal factors.
inline Vec TimesPow2(Vec v, Vec n) {
  for (size_t i = 0; i < kLanes; ++i) {
    const int whole = n[i] == n[i] ? static_cast<int>(n[i]) : 0;
    const int first = whole >> 1;
    v[i] = v[i] * Pow2(first) * Pow2(whole - first);
  }
  return v;
}
inline Vec TimesNormalPow2(Vec v, Vec n) { return TimesPow2(v, n); }

inline Vec LoadRow(const float* p) { return Load(p); }
// Like WidenFloat16, four at a time.
inline Vec LoadRow(const Float16* p) {
  typedef uint16_t Halves __attribute__((vector_size(8)));
  typedef uint32_t Words __attribute__((vector_size(16)));
  typedef int32_t Ints __attribute__((vector_size(16)));
  Halves halves;
  __builtin_memcpy(&halves, p, sizeof(halves));
  const Words bits = __builtin_convertvector(halves, Words);
  const Words magnitude = bits & 0x7fffu;
  const Words denormal = (Words)(__builtin_convertvector((Ints)magnitude, Vec) * Set1(0x1p-24f));
  const Words fraction = magnitude << 13;
  const Words finite = magnitude < 0x400u ? denormal : fraction + 0x38000000u;
  const Words special = magnitude > 0x7c00u ? fraction | 0x7fc00000u : fraction | 0x7f800000u;
  return (Vec)((bits & 0x8000u) << 16 | (magnitude < 0x7c00u ? finite : special));
}
inline Vec LoadRow(const BFloat16* p) {
  return Vec{WidenBFloat16(p[0].bits), WidenBFloat16(p[1].bits), WidenBFloat16(p[2].bits),
             WidenBFloat16(p[3].bits)};
}
inline Vec LoadRow(const Int8* p) {
  return Vec{static_cast<float>(p[0].value), static_cast<float>(p[1].value),
             static_cast<float>(p[2].value), static_cast<float>(p[3].value)};
}

template <typename T>
inline void WidenPair(const T* p, Vec* a, Vec* b) {
  *a = LoadRow(p);
  *b = LoadRow(p + kLanes);
}
template <int kHalf, typename T>
inline Vec WidenHalf(const T* p) {
  return LoadRow(p + kHalf * kLanes);
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
inline constexpr bool kHasQuads = false;

inline float First(Vec v) { return v[0]; }
inline float ReduceAdd(Vec v) { return (v[0] + v[2]) + (v[1] + v[3]); }
inline float ReduceMax(Vec v) {
  const float a = v[0] > v[1] ? v[0] : v[1];
  const float b = v[2] > v[3] ? v[2] : v[3];
  return a > b ? a : b;
}

inline Vec KeepLanes(Vec v, Vec other, int begin, int end) {
  typedef int32_t Lanes __attribute__((vector_size(16)));
  const Lanes lane = {0, 1, 2, 3};
  return ((lane >= begin) & (lane < end)) ? v : other;
}

inline void StoreSums4(Vec a0, Vec a1, Vec a2, Vec a3, float* out) {
  out[0] = ReduceAdd(a0);
  out[1] = ReduceAdd(a1);
  out[2] = ReduceAdd(a2);
  out[3] = ReduceAdd(a3);
}

inline void Transpose(Vec (&r)[kLanes]) {
  for (size_t i = 0; i < kLanes; ++i) {
    for (size_t j = i + 1; j < kLanes; ++j) {
      const float upper = r[i][j];
      r[i][j] = r[j][i];
      r[j][i] = upper;
    }
  }
}

inline void StoreRow(float* p, Vec v) { Store(p, v); }
inline void StoreRow(Float16* p, Vec v) {
  for (size_t i = 0; i < kLanes; ++i) p[i].bits = NarrowFloat16(v[i]);
}
inline void StoreRow(BFloat16* p, Vec v) {
  for (size_t i = 0; i < kLanes; ++i) p[i].bits = NarrowBFloat16(v[i]);
}

inline Vec Abs(Vec v) { return v < 0 ? -v : v; }
inline Vec ZeroBelow(Vec v, Vec limit) { return v < limit ? Zero() : v; }
inline uint32_t MaskNotBelow(Vec v, Vec limit) {
  uint32_t mask = 0;
  for (size_t i = 0; i < kLanes; ++i) mask |= static_cast<uint32_t>(!(v[i] < limit[i])) << i;
  return mask;
}
inline uint32_t MaskNaN(Vec v) {
  uint32_t mask = 0;
  for (size_t i = 0; i < kLanes; ++i) mask |= static_cast<uint32_t>(v[i] != v[i]) << i;
  return mask;
}
inline size_t StoreIndices(uint32_t mask, uint32_t first, uint32_t* indices) {
  if (mask == 0) return 0;
  size_t count = 0;
  for (uint32_t i = 0; i < kLanes; ++i) {
    indices[count] = first + i;
    count += mask >> i & 1;
  }
  return count;
}

inline void StoreSelected(uint32_t mask, Vec v, float* to) {
  if (mask == 0) return;
  for (uint32_t i = 0; i < kLanes; ++i) {
    const float x = v[i];
    __builtin_memcpy(to, &x, sizeof(x));
    to += mask >> i & 1;
  }
}

typedef uint64_t Bits __attribute__((vector_size(16)));
inline Bits LoadBits(const void* p) {
  Bits v;
  __builtin_memcpy(&v, p, sizeof(v));
  return v;
}
inline Bits Xor(Bits a, Bits b) { return a ^ b; }

}  // namespace
}  // namespace attndb::kernels::portable

#endif  // ATTNDB_KERNELS_SIMD_PORTABLE_H_
