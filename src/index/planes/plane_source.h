// What key planes are built from.
//
// Threads: a value; who makes it keeps its memory alive.
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
  // Key i is row order[i]; empty: row i. Only a bias can't be taken out of keys out of order.
  std::span<const uint32_t> order;
  int64_t first_position = 0;  // RoPE position of the first key.
  // RotaryFrequencies (rotary_bias.h) of the layer: a bias that the model added to keys before the
  // rotary embedding can only be taken out if they are known. At most half of keys.num_elements.
  std::span<const double> frequencies;
  // Sampled q rows, of the keys' type and row length: the transform is chosen by them. May be none.
  storage::QueryRows queries;
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_PLANES_PLANE_SOURCE_H_
