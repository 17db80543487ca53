// The source of key planes.
//
// Threads: a value; the caller keeps its memory alive.
#ifndef ATTNDB_INDEX_PLANES_PLANE_SOURCE_H_
#define ATTNDB_INDEX_PLANES_PLANE_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/layout.h"
#include "storage/kv/query_rows.h"

namespace attndb::index {

struct PlaneSource {
  kernels::RowsView keys;  // Finite.
  size_t num_keys = 0;
  // Key i is row order[i]; empty: row i. A bias can't be subtracted from keys in another order.
  std::span<const uint32_t> order;
  int64_t first_position = 0;  // RoPE position of the first key.
  // RotaryFrequencies (rotary_bias.h) of the layer. Only if they are known can a bias that the
  // model added to keys before the rotary embedding be subtracted. At most half of
  // keys.num_elements.
  std::span<const double> frequencies;
  // Sampled q rows of the keys' type and row length, by which the transform is chosen. May be
  // empty.
  storage::QueryRows queries;
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_PLANES_PLANE_SOURCE_H_
