#include "kernels/convert.h"

#include <cstring>

#include "common/check.h"
#include "kernels/float_bits-inl.h"
#include "kernels/kernel_table.h"

namespace attndb::kernels {
namespace {

// Moves element `from_idx(i)` to `to_idx(i)`; kBytes: size of an element.
template <typename Word>
void PermuteRope(bool to_half, const Word* from, size_t from_stride, Word* to, size_t to_stride,
                 size_t num_rows, size_t rope_dims, size_t num_cols) {
  const size_t half = rope_dims / 2;
  for (size_t r = 0; r < num_rows; ++r) {
    const Word* const in = from + r * from_stride;
    Word* const out = to + r * to_stride;
    for (size_t i = 0; i < half; ++i) {
      const size_t first = to_half ? i : 2 * i;
      const size_t second = to_half ? half + i : 2 * i + 1;
      out[first] = to_half ? in[2 * i] : in[i];
      out[second] = to_half ? in[2 * i + 1] : in[half + i];
    }
    std::memcpy(out + rope_dims, in + rope_dims, (num_cols - rope_dims) * sizeof(Word));
  }
}

void PermuteRope(bool to_half, DType dtype, const void* from, size_t from_stride, void* to,
                 size_t to_stride, size_t num_rows, size_t rope_dims, size_t num_cols) {
  ATTNDB_DCHECK(rope_dims % 2 == 0 && rope_dims <= num_cols);
  if (DTypeBytes(dtype) == 4) {
    PermuteRope(to_half, static_cast<const uint32_t*>(from), from_stride,
                static_cast<uint32_t*>(to), to_stride, num_rows, rope_dims, num_cols);
  } else {
    PermuteRope(to_half, static_cast<const uint16_t*>(from), from_stride,
                static_cast<uint16_t*>(to), to_stride, num_rows, rope_dims, num_cols);
  }
}

}  // namespace

ConvertReport ConvertRows(DType from_dtype, const void* from, size_t from_stride, DType to_dtype,
                          void* to, size_t to_stride, size_t num_rows, size_t num_cols,
                          size_t padded_cols) {
  ATTNDB_DCHECK(padded_cols >= num_cols);
  return Kernels().rows->convert_rows(from_dtype, from, from_stride, to_dtype, to, to_stride,
                                      num_rows, num_cols, padded_cols);
}

void LoadRows(const RowsView& view, size_t first, size_t count, float* rows) {
  ConvertRows(view.dtype, RowsFrom(view, first).data, view.stride, DType::kFloat32, rows,
              view.num_elements, count, view.num_elements, view.num_elements);
}

void RopeToHalf(DType dtype, const void* from, size_t from_stride, void* to, size_t to_stride,
                size_t num_rows, size_t rope_dims, size_t num_cols) {
  PermuteRope(true, dtype, from, from_stride, to, to_stride, num_rows, rope_dims, num_cols);
}

void RopeToInterleaved(DType dtype, const void* from, size_t from_stride, void* to,
                       size_t to_stride, size_t num_rows, size_t rope_dims, size_t num_cols) {
  PermuteRope(false, dtype, from, from_stride, to, to_stride, num_rows, rope_dims, num_cols);
}

float ToFloat32(uint16_t bits, DType dtype) {
  return dtype == DType::kFloat16 ? WidenFloat16(bits) : WidenBFloat16(bits);
}

uint16_t FromFloat32(float value, DType dtype) {
  return dtype == DType::kFloat16 ? NarrowFloat16(value) : NarrowBFloat16(value);
}

}  // namespace attndb::kernels
