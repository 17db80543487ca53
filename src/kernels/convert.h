// Conversion of rows between element types, and between RoPE layouts.
//
// Rounding: to nearest, ties to even, denormals kept, the same bits on every ISA. A finite value
//           beyond the target's range becomes inf and is reported. NaN stays NaN; the top bits of
//           its payload are kept.
// Layout:   any alignment, any number of columns; strides in elements. Source and target may be the
//           same memory only if types and strides are equal.
// Errors:   none.
// Threads:  stateless.
#ifndef ATTNDB_KERNELS_CONVERT_H_
#define ATTNDB_KERNELS_CONVERT_H_

#include <cstddef>
#include <cstdint>

#include "attndb/dtype.h"
#include "kernels/layout.h"

namespace attndb::kernels {

struct ConvertReport {
  bool overflow = false;   // A finite input became +-inf.
  bool nonfinite = false;  // An input was NaN or +-inf.
};

// Converts num_cols elements of each row, then writes zeros up to padded_cols.
// REQUIRES: padded_cols >= num_cols; to_stride >= padded_cols.
ConvertReport ConvertRows(DType from_dtype, const void* from, size_t from_stride, DType to_dtype,
                          void* to, size_t to_stride, size_t num_rows, size_t num_cols,
                          size_t padded_cols);

// Loads rows [first, first + count) of a view as float32: rows [count, view.num_elements].
void LoadRows(const RowsView& view, size_t first, size_t count, float* rows);

// Converts the RoPE layout of a row's first rope_dims elements; the rest, up to num_cols, is
// copied.
// ToHalf:        to[i] = from[2i], to[i + rope_dims/2] = from[2i + 1].
// ToInterleaved: the inverse of ToHalf.
// REQUIRES: rope_dims even and <= num_cols; from and to do not overlap.
void RopeToHalf(DType dtype, const void* from, size_t from_stride, void* to, size_t to_stride,
                size_t num_rows, size_t rope_dims, size_t num_cols);
void RopeToInterleaved(DType dtype, const void* from, size_t from_stride, void* to,
                       size_t to_stride, size_t num_rows, size_t rope_dims, size_t num_cols);

// Converts one value, with the same bits as ConvertRows.
float ToFloat32(uint16_t bits, DType dtype);
uint16_t FromFloat32(float value, DType dtype);

}  // namespace attndb::kernels

#endif  // ATTNDB_KERNELS_CONVERT_H_
