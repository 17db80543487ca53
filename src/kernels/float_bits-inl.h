// Internal: float16 and bfloat16 by integer arithmetic; the definition that every ISA must equal.
//
// Included by targets and by baseline code alike: all internal linkage.
// Threads: values.
#ifndef ATTNDB_KERNELS_FLOAT_BITS_INL_H_
#define ATTNDB_KERNELS_FLOAT_BITS_INL_H_

#include <cstdint>

namespace attndb::kernels {
namespace {

inline uint32_t BitsOfFloat(float x) {
  uint32_t bits;
  __builtin_memcpy(&bits, &x, sizeof(bits));
  return bits;
}
inline float FloatOfBits(uint32_t bits) {
  float x;
  __builtin_memcpy(&x, &bits, sizeof(x));
  return x;
}

inline float WidenBFloat16(uint16_t bits) { return FloatOfBits(uint32_t{bits} << 16); }

inline float WidenFloat16(uint16_t bits) {
  const uint32_t sign = uint32_t{bits & 0x8000u} << 16;
  const uint32_t magnitude = bits & 0x7fffu;
  if (magnitude > 0x7c00u) return FloatOfBits(sign | 0x7fc00000u | (magnitude << 13));  // NaN.
  if (magnitude == 0x7c00u) return FloatOfBits(sign | 0x7f800000u);
  if (magnitude < 0x400u) {  // Denormal: units of 2^-24.
    return FloatOfBits(sign | BitsOfFloat(static_cast<float>(magnitude) * 0x1p-24f));
  }
  return FloatOfBits(sign | ((magnitude << 13) + 0x38000000u));
}

inline uint16_t NarrowBFloat16(float x) {
  const uint32_t bits = BitsOfFloat(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

inline uint16_t NarrowFloat16(float x) {
  const uint32_t bits = BitsOfFloat(x);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  }
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // >= 65520: inf.
  if (magnitude < 0x38800000u) {  // Denormal: adding 0.5 leaves units of 2^-24, rounded to even.
    const float shifted = FloatOfBits(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (BitsOfFloat(shifted) - 0x3f000000u));
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

}  // namespace
}  // namespace attndb::kernels

#endif  // ATTNDB_KERNELS_FLOAT_BITS_INL_H_
