// Internal: conversion of rows between element types.
#ifndef ATTNDB_KERNELS_CONVERT_INL_H_
#define ATTNDB_KERNELS_CONVERT_INL_H_

#include "kernels/convert.h"
#include "kernels/dot-inl.h"
#include "kernels/float_bits-inl.h"
#include "kernels/math-inl.h"

namespace attndb::kernels::ATTNDB_TARGET {
namespace {

inline float Widen(float x) { return x; }
inline float Widen(Float16 x) { return WidenFloat16(x.bits); }
inline float Widen(BFloat16 x) { return WidenBFloat16(x.bits); }
inline void Narrow(float x, float* to) { *to = x; }
inline void Narrow(float x, Float16* to) { to->bits = NarrowFloat16(x); }
inline void Narrow(float x, BFloat16* to) { to->bits = NarrowBFloat16(x); }

// Least magnitude that rounds to inf.
inline float OverflowLimit(const float*) { return kInfinity; }
inline float OverflowLimit(const Float16*) { return 65520.0f; }
inline float OverflowLimit(const BFloat16*) { return FloatOfBits(0x7f7f8000u); }

struct ConvertMasks {
  uint32_t overflow = 0;
  uint32_t nonfinite = 0;
};

template <typename From, typename To>
inline void ConvertRow(const From* from, To* to, size_t num_cols, ConvertMasks* masks) {
  const float limit = OverflowLimit(to);
  size_t i = 0;
  for (; i + kLanes <= num_cols; i += kLanes) {
    const Vec x = LoadRow(from + i);
    const uint32_t nonfinite = MaskNotBelow(Abs(x), Set1(kInfinity));
    masks->nonfinite |= nonfinite;
    masks->overflow |= MaskNotBelow(Abs(x), Set1(limit)) & ~nonfinite;
    StoreRow(to + i, x);
  }
  for (; i < num_cols; ++i) {
    const float x = Widen(from[i]);
    const uint32_t magnitude = BitsOfFloat(x) & 0x7fffffffu;
    const uint32_t nonfinite = magnitude >= 0x7f800000u;
    masks->nonfinite |= nonfinite;
    masks->overflow |= static_cast<uint32_t>(magnitude >= BitsOfFloat(limit)) & ~nonfinite;
    Narrow(x, to + i);
  }
}

ConvertReport ConvertRows(DType from_dtype, const void* from, size_t from_stride, DType to_dtype,
                          void* to, size_t to_stride, size_t num_rows, size_t num_cols,
                          size_t padded_cols) {
  ConvertMasks masks;
  WithElement(from_dtype, [&]<typename From>() {
    WithElement(to_dtype, [&]<typename To>() {
      for (size_t r = 0; r < num_rows; ++r) {
        To* const row = static_cast<To*>(to) + r * to_stride;
        ConvertRow(static_cast<const From*>(from) + r * from_stride, row, num_cols, &masks);
        __builtin_memset(static_cast<void*>(row + num_cols), 0,
                         (padded_cols - num_cols) * sizeof(To));
      }
    });
  });
  return {masks.overflow != 0, masks.nonfinite != 0};
}

}  // namespace
}  // namespace attndb::kernels::ATTNDB_TARGET

#endif  // ATTNDB_KERNELS_CONVERT_INL_H_
