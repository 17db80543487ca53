// Views of the caller's q, k, v and output arrays: any strides, no ownership, no copy.
//
// Shapes:  [rows, heads, dim]; element (r, h, d) lies at data + (r * strides[0] + h * strides[1] +
//          d * strides[2]) elements. Strides may be negative; an output's may not alias.
// Threads: values; the caller keeps the memory alive and unchanged during the call.
#ifndef ATTNDB_TENSOR_VIEW_H_
#define ATTNDB_TENSOR_VIEW_H_

#include <array>
#include <cstdint>

#include "attndb/dtype.h"

namespace attndb {

template <typename Pointer>
struct BasicTensorView {
  Pointer data = nullptr;
  DType dtype = DType::kFloat32;
  std::array<int64_t, 3> shape = {0, 0, 0};    // [rows, heads, dim]
  std::array<int64_t, 3> strides = {0, 0, 0};  // In elements.

  // A C-contiguous array.
  static BasicTensorView Contiguous(Pointer data, DType dtype, int64_t rows, int64_t heads,
                                    int64_t dim) {
    return {data, dtype, {rows, heads, dim}, {heads * dim, dim, 1}};
  }

  int64_t rows() const { return shape[0]; }
  int64_t heads() const { return shape[1]; }
  int64_t dim() const { return shape[2]; }
};

using TensorView = BasicTensorView<const void*>;
using MutableTensorView = BasicTensorView<void*>;

}  // namespace attndb

#endif  // ATTNDB_TENSOR_VIEW_H_
