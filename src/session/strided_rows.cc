#include "session/strided_rows.h"

#include <cstring>

namespace attndb::internal {
namespace {

// Whether the rows of a head can be converted where they lie.
template <typename View>
bool HasPlainRows(const View& view, uint64_t num_rows) {
  return view.strides[2] == 1 && (num_rows == 1 || view.strides[0] >= view.dim());
}

// Elements from one row to the next. REQUIRES: HasPlainRows.
template <typename View>
size_t PlainStride(const View& view, uint64_t num_rows) {
  return static_cast<size_t>(num_rows == 1 ? view.dim() : view.strides[0]);
}

template <typename View>
int64_t OffsetBytes(const View& view, uint64_t row, uint32_t head) {
  return (static_cast<int64_t>(row) * view.strides[0] + head * view.strides[1]) *
         static_cast<int64_t>(DTypeBytes(view.dtype));
}

}  // namespace

void ScatterRows(DType from_dtype, const std::byte* from, size_t from_stride,
                 const MutableTensorView& to, const HeadRange& range,
                 std::vector<std::byte>* scratch) {
  const auto dim = static_cast<size_t>(to.dim());
  auto* const data = static_cast<std::byte*>(to.data);
  if (HasPlainRows(to, range.num_rows)) {
    kernels::ConvertRows(from_dtype, from, from_stride, to.dtype,
                         data + OffsetBytes(to, range.first_row, range.head),
                         PlainStride(to, range.num_rows), range.num_rows, dim, dim);
    return;
  }
  const size_t element_bytes = DTypeBytes(to.dtype);
  scratch->resize(range.num_rows * dim * element_bytes);
  kernels::ConvertRows(from_dtype, from, from_stride, to.dtype, scratch->data(), dim,
                       range.num_rows, dim, dim);
  const int64_t step = to.strides[2] * static_cast<int64_t>(element_bytes);
  const std::byte* element = scratch->data();
  for (uint64_t i = 0; i < range.num_rows; ++i) {
    std::byte* target = data + OffsetBytes(to, range.first_row + i, range.head);
    for (size_t d = 0; d < dim; ++d, element += element_bytes, target += step) {
      std::memcpy(target, element, element_bytes);
    }
  }
}

kernels::ConvertReport GatherRows(const TensorView& from, const HeadRange& range, DType to_dtype,
                                  std::byte* to, std::vector<std::byte>* scratch) {
  const auto dim = static_cast<size_t>(from.dim());
  const auto* const data = static_cast<const std::byte*>(from.data);
  if (HasPlainRows(from, range.num_rows)) {
    return kernels::ConvertRows(from.dtype, data + OffsetBytes(from, range.first_row, range.head),
                                PlainStride(from, range.num_rows), to_dtype, to, dim,
                                range.num_rows, dim, dim);
  }
  const size_t element_bytes = DTypeBytes(from.dtype);
  scratch->resize(range.num_rows * dim * element_bytes);
  const int64_t step = from.strides[2] * static_cast<int64_t>(element_bytes);
  std::byte* element = scratch->data();
  for (uint64_t i = 0; i < range.num_rows; ++i) {
    const std::byte* source = data + OffsetBytes(from, range.first_row + i, range.head);
    for (size_t d = 0; d < dim; ++d, element += element_bytes, source += step) {
      std::memcpy(element, source, element_bytes);
    }
  }
  return kernels::ConvertRows(from.dtype, scratch->data(), dim, to_dtype, to, dim, range.num_rows,
                              dim, dim);
}

}  // namespace attndb::internal
