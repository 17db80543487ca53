// Shapes of a layer's K and V, and a view of one kv head's rows: the data that the query engine
// gets from storage.
//
// Shapes:  k [num_tokens, RowElements(head_dim)], v [num_tokens, RowElements(v_head_dim)],
//          row-major; a row is padded with zeros to a multiple of 16 elements (kernels/layout.h).
// Units:   elements of KvShape::dtype; k and v are 64-byte aligned.
// Threads: values; the maker of the view keeps its memory alive.
#ifndef ATTNDB_STORAGE_KV_KV_ROWS_H_
#define ATTNDB_STORAGE_KV_KV_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "attndb/dtype.h"
#include "common/position_turns.h"

namespace attndb::storage {

// K and V of one layer, as far as storage needs to know.
struct LayerShape {
  uint32_t num_kv_heads = 0;
  uint32_t head_dim = 0;
  uint32_t v_head_dim = 0;
  // Not null: keys are stored as they were before RoPE, and are turned by this as they are read.
  std::shared_ptr<const PositionTurns> key_turns;

  // Compares only the sizes of rows; a model's identity covers their meaning.
  friend bool operator==(const LayerShape& a, const LayerShape& b) {
    return a.num_kv_heads == b.num_kv_heads && a.head_dim == b.head_dim &&
           a.v_head_dim == b.v_head_dim;
  }
};

struct KvShape {
  DType dtype = DType::kFloat16;
  std::vector<LayerShape> layers;
  friend bool operator==(const KvShape&, const KvShape&) = default;
};

enum class RowPart : uint8_t { kKeys, kValues };

// Consecutive tokens of one kv head of one layer.
struct KvRows {
  const std::byte* k = nullptr;
  const std::byte* v = nullptr;
  uint64_t num_tokens = 0;

  const std::byte* At(RowPart part) const { return part == RowPart::kKeys ? k : v; }
};

}  // namespace attndb::storage

#endif  // ATTNDB_STORAGE_KV_KV_ROWS_H_
