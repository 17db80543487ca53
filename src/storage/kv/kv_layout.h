// Sizes of stored rows.
//
// Layout:  a row is its head's elements and zeros up to a multiple of 16, so that kernels have no
//          loop for odd ends (kernels/layout.h).
// Units:   bytes unless the name says elements.
// Threads: pure functions.
#ifndef ATTNDB_STORAGE_KV_KV_LAYOUT_H_
#define ATTNDB_STORAGE_KV_KV_LAYOUT_H_

#include <cstdint>

#include "attndb/dtype.h"
#include "attndb/status.h"
#include "kernels/layout.h"
#include "storage/kv/kv_rows.h"

namespace attndb::storage {

using kernels::RowElements;

// A multiple of 32.
constexpr uint64_t RowBytes(DType dtype, uint32_t head_dim) {
  return RowElements(head_dim) * DTypeBytes(dtype);
}

inline uint64_t KRowBytes(const KvShape& shape, uint32_t layer) {
  return RowBytes(shape.dtype, shape.layers[layer].head_dim);
}
inline uint64_t VRowBytes(const KvShape& shape, uint32_t layer) {
  return RowBytes(shape.dtype, shape.layers[layer].v_head_dim);
}

// K and V of one token in one layer, all heads, padding included.
inline uint64_t LayerBytesPerToken(const KvShape& shape, uint32_t layer) {
  return shape.layers[layer].num_kv_heads * (KRowBytes(shape, layer) + VRowBytes(shape, layer));
}

// K and V of one token in all layers.
uint64_t BytesPerToken(const KvShape& shape);

// Errors: kInvalidArgument naming layer and field, if a number is 0 or above the format's caps.
Status ValidateShape(const KvShape& shape);

}  // namespace attndb::storage

#endif  // ATTNDB_STORAGE_KV_KV_LAYOUT_H_
