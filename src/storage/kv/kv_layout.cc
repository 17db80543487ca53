#include "storage/kv/kv_layout.h"

#include <string>
#include <string_view>

#include "attndb/result.h"
#include "storage/vfs/format.h"

namespace attndb::storage {
namespace {

Status CheckInRange(const std::string& name, uint64_t found, uint64_t limit) {
  if (found >= 1 && found <= limit) return Status::Ok();
  return Status::InvalidArgument(name + ": expected 1 to " + std::to_string(limit) + ", found " +
                                 std::to_string(found));
}

}  // namespace

uint64_t BytesPerToken(const KvShape& shape) {
  uint64_t sum = 0;
  for (uint32_t layer = 0; layer < shape.layers.size(); ++layer) {
    sum += LayerBytesPerToken(shape, layer);
  }
  return sum;
}

Status ValidateShape(const KvShape& shape) {
  if (shape.dtype > DType::kBFloat16) {
    return Status::InvalidArgument("dtype: expected 0, 1 or 2, found " +
                                   std::to_string(static_cast<int>(shape.dtype)));
  }
  ATTNDB_RETURN_IF_ERROR(CheckInRange("num_layers", shape.layers.size(), kMaxLayers));
  for (size_t i = 0; i < shape.layers.size(); ++i) {
    const std::string layer = "layer " + std::to_string(i) + ": ";
    const LayerShape& found = shape.layers[i];
    ATTNDB_RETURN_IF_ERROR(CheckInRange(layer + "num_kv_heads", found.num_kv_heads, kMaxKvHeads));
    ATTNDB_RETURN_IF_ERROR(CheckInRange(layer + "head_dim", found.head_dim, kMaxHeadDim));
    ATTNDB_RETURN_IF_ERROR(CheckInRange(layer + "v_head_dim", found.v_head_dim, kMaxHeadDim));
  }
  return Status::Ok();
}

}  // namespace attndb::storage
