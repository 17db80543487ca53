#include "session/view_check.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "attndb/result.h"
#include "attndb/units.h"

namespace attndb::internal {
namespace {

constexpr int64_t kMaxRows = int64_t{1} << 31;
// Far beyond any context, and far from where sums of positions would overflow.
constexpr int64_t kMaxPosition = int64_t{1} << 40;

std::string ShapeText(const std::array<int64_t, 3>& shape) {
  return "[" + std::to_string(shape[0]) + ", " + std::to_string(shape[1]) + ", " +
         std::to_string(shape[2]) + "]";
}

std::string Place(std::string_view name, LayerId layer) {
  return "layer " + std::to_string(layer) + ": " + std::string(name);
}

// Whether every element's offset in bytes fits in a signed 64-bit number.
template <typename View>
bool OffsetsFit(const View& view) {
  __extension__ using Wide = __int128;
  Wide reach = 0;
  for (size_t i = 0; i < 3; ++i) {
    const Wide stride = view.strides[i];
    reach += (view.shape[i] - 1) * (stride < 0 ? -stride : stride);
  }
  return (reach + 1) * static_cast<Wide>(DTypeBytes(view.dtype)) <=
         std::numeric_limits<int64_t>::max();
}

template <typename View>
Status CheckCommon(std::string_view name, LayerId layer, const View& view, uint32_t num_heads,
                   uint32_t dim) {
  if (DTypeName(view.dtype) == "unknown") {
    return Status::InvalidArgument(Place(name, layer) + " has dtype " +
                                   std::to_string(static_cast<int>(view.dtype)) +
                                   ", expected float32 (0), float16 (1) or bfloat16 (2)");
  }
  if (view.rows() < 1 || view.rows() > kMaxRows || view.heads() != num_heads || view.dim() != dim) {
    return Status::InvalidArgument(Place(name, layer) + " has shape " + ShapeText(view.shape) +
                                   ", expected [1 or more, " + std::to_string(num_heads) + ", " +
                                   std::to_string(dim) + "]");
  }
  if (view.data == nullptr) {
    return Status::InvalidArgument(Place(name, layer) + " is null, expected " +
                                   ShapeText(view.shape) + " elements");
  }
  if (!OffsetsFit(view)) {
    return Status::InvalidArgument(Place(name, layer) + " has strides " + ShapeText(view.strides) +
                                   " that reach beyond 64 bits");
  }
  return Status::Ok();
}

// Sorted by stride, each dimension must step over all smaller ones. This suffices, and arrays of
// libraries always satisfy it.
bool HasDistinctElements(const MutableTensorView& view) {
  std::array<std::pair<int64_t, int64_t>, 3> dims;  // |stride|, size
  for (size_t i = 0; i < 3; ++i) {
    // A dimension of size 1 never uses its stride.
    const int64_t stride = view.shape[i] == 1 ? 0 : view.strides[i];
    dims[i] = {stride < 0 ? -stride : stride, view.shape[i]};
  }
  std::sort(dims.begin(), dims.end());
  int64_t reach = 0;  // Farthest offset within all smaller dimensions.
  for (const auto& [stride, size] : dims) {
    if (size == 1) continue;
    if (stride <= reach) return false;
    reach += stride * (size - 1);
  }
  return true;
}

}  // namespace

std::string RowsText(int64_t num_rows) { return Counted(static_cast<uint64_t>(num_rows), "row"); }

Status CheckLayer(LayerId layer, uint32_t num_layers) {
  if (layer < num_layers) return Status::Ok();
  return Status::InvalidArgument("layer " + std::to_string(layer) +
                                 " does not exist; the model has " + Counted(num_layers, "layer"));
}

Status CheckFirstPosition(int64_t first_position) {
  if (first_position >= 0 && first_position <= kMaxPosition) return Status::Ok();
  return Status::InvalidArgument("first_position is " + std::to_string(first_position) +
                                 ", expected 0 to " + std::to_string(kMaxPosition));
}

Status CheckInput(std::string_view name, LayerId layer, const TensorView& view, uint32_t num_heads,
                  uint32_t dim) {
  return CheckCommon(name, layer, view, num_heads, dim);
}

Status CheckQuery(const ModelSpec& spec, LayerId layer, const TensorView& q) {
  ATTNDB_RETURN_IF_ERROR(CheckLayer(layer, spec.num_layers()));
  const LayerSpec& shape = spec.layers[layer];
  return CheckInput("q", layer, q, shape.num_q_heads, shape.head_dim);
}

Status CheckOutput(std::string_view name, LayerId layer, const MutableTensorView& view,
                   const OutputSource& source) {
  ATTNDB_RETURN_IF_ERROR(CheckCommon(name, layer, view, source.num_heads, source.dim));
  const std::string source_name(source.name);
  if (view.rows() != source.num_rows) {
    return Status::InvalidArgument(Place(name, layer) + " has " + RowsText(view.rows()) +
                                   ", expected " + RowsText(source.num_rows) + ", as " +
                                   source_name);
  }
  if (view.dtype != DType::kFloat32 && view.dtype != source.dtype) {
    return Status::InvalidArgument(Place(name, layer) + " has dtype " +
                                   std::string(DTypeName(view.dtype)) +
                                   ", expected float32 or that of " + source_name + ", " +
                                   std::string(DTypeName(source.dtype)));
  }
  if (!HasDistinctElements(view)) {
    return Status::InvalidArgument(Place(name, layer) + " has strides " + ShapeText(view.strides) +
                                   " by which elements overlap");
  }
  return Status::Ok();
}

}  // namespace attndb::internal
