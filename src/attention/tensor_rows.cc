#include "attention/tensor_rows.h"

#include <cstring>

#include "kernels/convert.h"

namespace attndb::attention {
namespace {

// Whether whole heads can be converted at once: elements side by side, heads at a forward stride.
template <typename View>
bool HasPlainHeads(const View& view) {
  return view.strides[2] == 1 && (view.heads() <= 1 || view.strides[1] >= view.dim());
}

template <typename View>
int64_t Offset(const View& view, uint64_t row, uint32_t head, uint32_t d) {
  return static_cast<int64_t>(row) * view.strides[0] + head * view.strides[1] + d * view.strides[2];
}

float LoadElement(const TensorView& view, int64_t offset) {
  if (view.dtype == DType::kFloat32) return static_cast<const float*>(view.data)[offset];
  return kernels::ToFloat32(static_cast<const uint16_t*>(view.data)[offset], view.dtype);
}

void StoreElement(float value, const MutableTensorView& view, int64_t offset) {
  if (view.dtype == DType::kFloat32) {
    static_cast<float*>(view.data)[offset] = value;
  } else {
    static_cast<uint16_t*>(view.data)[offset] = kernels::FromFloat32(value, view.dtype);
  }
}

}  // namespace

void LoadHeads(const TensorView& view, uint64_t row, uint32_t first_head, uint32_t num_heads,
               size_t padded, float* to) {
  const auto dim = static_cast<uint32_t>(view.dim());
  if (HasPlainHeads(view)) {
    const auto* from =
        static_cast<const std::byte*>(view.data) +
        Offset(view, row, first_head, 0) * static_cast<int64_t>(DTypeBytes(view.dtype));
    kernels::ConvertRows(view.dtype, from, static_cast<size_t>(view.strides[1]), DType::kFloat32,
                         to, padded, num_heads, dim, padded);
    return;
  }
  for (uint32_t h = 0; h < num_heads; ++h) {
    float* const head = to + h * padded;
    for (uint32_t d = 0; d < dim; ++d) {
      head[d] = LoadElement(view, Offset(view, row, first_head + h, d));
    }
    std::memset(head + dim, 0, (padded - dim) * sizeof(float));
  }
}

void StoreHeads(const float* from, size_t from_stride, uint64_t row, uint32_t first_head,
                uint32_t num_heads, const MutableTensorView& view) {
  const auto dim = static_cast<uint32_t>(view.dim());
  if (HasPlainHeads(view)) {
    auto* const to =
        static_cast<std::byte*>(view.data) +
        Offset(view, row, first_head, 0) * static_cast<int64_t>(DTypeBytes(view.dtype));
    const auto to_stride = static_cast<size_t>(view.heads() <= 1 ? dim : view.strides[1]);
    kernels::ConvertRows(DType::kFloat32, from, from_stride, view.dtype, to, to_stride, num_heads,
                         dim, dim);
    return;
  }
  for (uint32_t h = 0; h < num_heads; ++h) {
    for (uint32_t d = 0; d < dim; ++d) {
      StoreElement(from[h * from_stride + d], view, Offset(view, row, first_head + h, d));
    }
  }
}

void ToHalfLayout(const Rope& rope, uint32_t head_dim, size_t num_rows, size_t padded, float* rows,
                  float* spare) {
  if (rope.layout != RopeLayout::kInterleaved) return;
  const size_t rope_dims = rope.DimsOf(head_dim);
  std::memcpy(spare, rows, num_rows * padded * sizeof(float));
  kernels::RopeToHalf(DType::kFloat32, spare, padded, rows, padded, num_rows, rope_dims, padded);
}

}  // namespace attndb::attention
