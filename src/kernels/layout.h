// How rows of keys and values lie in memory, as every kernel expects them.
//
// Layout:  row i of a run starts at data + i * stride elements. A row holds its head's elements and
//          zeros up to a multiple of 16 (RowElements), so kernels have no loop for odd ends. Rows
//          start at a multiple of 32 bytes. Nothing past the last padded element is read.
// Threads: plain values.
#ifndef ATTNDB_KERNELS_LAYOUT_H_
#define ATTNDB_KERNELS_LAYOUT_H_

#include <cstddef>

#include "attndb/dtype.h"

namespace attndb::kernels {

// One AVX-512 register of float32; two of AVX2.
inline constexpr size_t kRowMultiple = 16;
inline constexpr size_t kRowAlignBytes = 32;

// Largest padded row that kernels take: Gemma's 256 with room to spare.
inline constexpr size_t kMaxRowElements = 1024;

// Tokens that attention folds at a time.
inline constexpr size_t kKeysPerTile = 64;

// Elements of a stored row of `head_dim`: the next multiple of 16.
constexpr size_t RowElements(size_t head_dim) {
  return (head_dim + kRowMultiple - 1) / kRowMultiple * kRowMultiple;
}

// Rows of a run; not owned.
struct RowsView {
  const void* data = nullptr;  // First element of row 0.
  size_t stride = 0;           // Elements from one row to the next; >= num_elements.
  size_t num_elements = 0;     // Padded elements of a row: a multiple of kRowMultiple.
  DType dtype = DType::kFloat32;
};

// The rows from `first` on.
inline RowsView RowsFrom(const RowsView& rows, size_t first) {
  RowsView from = rows;
  from.data =
      static_cast<const std::byte*>(rows.data) + first * rows.stride * DTypeBytes(rows.dtype);
  return from;
}

}  // namespace attndb::kernels

#endif  // ATTNDB_KERNELS_LAYOUT_H_
