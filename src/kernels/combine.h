// Adds linear combinations of tabulated functions to rows of numbers: a small matrix product.
//
// Sums:    float32, in the order of the functions, then added to the present values. Fused if the
//          target supports it, so the last bit may differ between targets.
// Errors:  none; sizes are preconditions.
// Threads: stateless.
#ifndef ATTNDB_KERNELS_COMBINE_H_
#define ATTNDB_KERNELS_COMBINE_H_

#include <cstddef>

namespace attndb::kernels {

// Columns of a table that lie together: no target computes more at a time. Rows of all columns
// would be a power of two apart, and push each other out of the cache.
inline constexpr size_t kCombineColumns = 32;

// Functions tabulated by column, [columns / kCombineColumns, num_functions, kCombineColumns]; not
// owned.
struct FunctionTable {
  const float* values = nullptr;
  size_t num_columns = 0;  // A multiple of kCombineColumns.
  size_t num_functions = 0;

  // Place of function f of column i.
  static constexpr size_t Offset(size_t num_functions, size_t f, size_t i) {
    return (i / kCombineColumns * num_functions + f) * kCombineColumns + i % kCombineColumns;
  }
};

// out[r * out_stride + i] += sum over f of factors[r * factors_stride + f] * function f of column
// i, for i in [0, num_columns).
// REQUIRES: num_columns <= table.num_columns.
void AddCombinations(const FunctionTable& table, const float* factors, size_t factors_stride,
                     size_t num_rows, size_t num_columns, float* out, size_t out_stride);

}  // namespace attndb::kernels

#endif  // ATTNDB_KERNELS_COMBINE_H_
