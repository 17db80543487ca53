// Rows of one head between a caller's view, of any strides and any type, and contiguous memory.
//
// Units:   strides in elements; `scratch` is the caller's, so that many calls allocate once.
// Errors:  none: views were checked before (view_check.h).
// Threads: stateless.
#ifndef ATTNDB_SESSION_STRIDED_ROWS_H_
#define ATTNDB_SESSION_STRIDED_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "attndb/dtype.h"
#include "attndb/tensor_view.h"
#include "kernels/convert.h"

namespace attndb::internal {

// Rows [first_row, first_row + num_rows) of head `head` of a view.
struct HeadRange {
  uint32_t head = 0;
  uint64_t first_row = 0;
  uint64_t num_rows = 0;
};

// Contiguous rows `from`, `from_stride` elements of `from_dtype` apart, go to `range` of `to`.
void ScatterRows(DType from_dtype, const std::byte* from, size_t from_stride,
                 const MutableTensorView& to, const HeadRange& range,
                 std::vector<std::byte>* scratch);

// `range` of `from` goes to `to`, [num_rows, dim] of `to_dtype`.
kernels::ConvertReport GatherRows(const TensorView& from, const HeadRange& range, DType to_dtype,
                                  std::byte* to, std::vector<std::byte>* scratch);

}  // namespace attndb::internal

#endif  // ATTNDB_SESSION_STRIDED_ROWS_H_
