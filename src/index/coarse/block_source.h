// What the summaries of blocks are made from.
//
// Threads: a value; who makes it keeps its memory alive.
#ifndef ATTNDB_INDEX_COARSE_BLOCK_SOURCE_H_
#define ATTNDB_INDEX_COARSE_BLOCK_SOURCE_H_

#include <cstddef>

#include "kernels/convert.h"
#include "kernels/layout.h"
#include "storage/kv/query_rows.h"

namespace attndb::index {

struct BlockSource {
  kernels::RowsView keys;  // Finite.
  size_t num_keys = 0;
  // Sampled q rows, of the keys' type and row length: representatives are chosen by them. May be
  // none.
  storage::QueryRows queries;

  // Keys [first, first + count) as float32: rows [count, num_elements].
  void Load(size_t first, size_t count, float* rows) const {
    kernels::ConvertRows(keys.dtype, kernels::RowsFrom(keys, first).data, keys.stride,
                         DType::kFloat32, rows, keys.num_elements, count, keys.num_elements,
                         keys.num_elements);
  }
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_COARSE_BLOCK_SOURCE_H_
