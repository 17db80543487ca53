// The source of block summaries.
//
// Threads: a value; the caller keeps its memory alive.
#ifndef ATTNDB_INDEX_COARSE_BLOCK_SOURCE_H_
#define ATTNDB_INDEX_COARSE_BLOCK_SOURCE_H_

#include <cstddef>

#include "kernels/layout.h"
#include "storage/kv/query_rows.h"

namespace attndb::index {

struct BlockSource {
  kernels::RowsView keys;  // Finite.
  size_t num_keys = 0;
  // Sampled q rows of the keys' type and row length, by which representatives are chosen. May be
  // empty.
  storage::QueryRows queries;
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_COARSE_BLOCK_SOURCE_H_
