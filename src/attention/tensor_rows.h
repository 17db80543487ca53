// Copies q rows from the caller's arrays, and output rows into them, whatever their strides and
// types.
//
// Shapes:  one token's heads [first_head, first_head + num_heads) at a time: the group of a kv
//          head.
// Errors:  none: views were checked before.
// Threads: stateless.
#ifndef ATTNDB_ATTENTION_TENSOR_ROWS_H_
#define ATTNDB_ATTENTION_TENSOR_ROWS_H_

#include <cstddef>
#include <cstdint>

#include "attndb/tensor_view.h"
#include "attndb/types.h"

namespace attndb::attention {

// to[h][0..padded) = row `row`, head first_head + h of `view` as float32, zero padded. `to` has
// stride `padded`.
void LoadHeads(const TensorView& view, uint64_t row, uint32_t first_head, uint32_t num_heads,
               size_t padded, float* to);

// Stores from[h][0..dim), stride from_stride, into row `row`, head first_head + h of `view`,
// rounded to its type.
void StoreHeads(const float* from, size_t from_stride, uint64_t row, uint32_t first_head,
                uint32_t num_heads, const MutableTensorView& view);

// Converts rows from layout kInterleaved to kHalf in place; `spare` holds as much as `rows`.
void ToHalfLayout(const Rope& rope, uint32_t head_dim, size_t num_rows, size_t padded, float* rows,
                  float* spare);

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_TENSOR_ROWS_H_
