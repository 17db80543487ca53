#include "python/src/arrays.h"

#include <nanobind/stl/string.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "attndb/dtype.h"
#include "python/src/status_error.h"
#include "python/src/torch_tensor.h"

namespace attndb::python {
namespace {

namespace nb = nanobind;

[[noreturn]] void Refuse(const char* name, const std::string& expected, const std::string& found) {
  throw StatusError(
      Status::InvalidArgument(std::string(name) + ": expected " + expected + ", found " + found));
}

std::string TypeName(nb::handle object) {
  return nb::cast<std::string>(nb::handle(object.type()).attr("__name__"));
}

template <typename Array>
Array Take(nb::handle object, const char* name, const char* expected) {
  Array array;
  if (!nb::try_cast<Array>(object, array, /*convert=*/false)) {
    PyErr_Clear();
    Refuse(name, expected, TypeName(object));
  }
  return array;
}

DType ToDType(nb::dlpack::dtype dtype, const char* name) {
  const auto is = [&](nb::dlpack::dtype_code code, uint8_t bits) {
    return dtype.code == static_cast<uint8_t>(code) && dtype.bits == bits && dtype.lanes == 1;
  };
  if (is(nb::dlpack::dtype_code::Float, 32)) return DType::kFloat32;
  if (is(nb::dlpack::dtype_code::Float, 16)) return DType::kFloat16;
  if (is(nb::dlpack::dtype_code::Bfloat, 16)) return DType::kBFloat16;
  Refuse(name, "float32, float16 or bfloat16",
         "another dtype of " + std::to_string(dtype.bits) + " bits");
}

template <typename Array>
std::string ShapeText(const Array& array) {
  std::string text = "[";
  for (size_t i = 0; i < array.ndim(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(array.shape(i));
  }
  return text + "]";
}

template <typename View, typename Array>
View ToView(const Array& array, const char* name) {
  if (array.ndim() != 3) Refuse(name, "shape [rows, heads, dim]", ShapeText(array));
  View view = {.data = array.data(), .dtype = ToDType(array.dtype(), name)};
  for (size_t i = 0; i < 3; ++i) {
    view.shape[i] = static_cast<int64_t>(array.shape(i));
    view.strides[i] = array.stride(i);
  }
  return view;
}

// Returns the view of `object`. *array keeps its memory alive; a torch tensor keeps its own.
template <typename View, typename Array>
View TakeView(nb::handle object, const char* name, const char* expected, Array* array) {
  if (const auto torch = TorchView(object)) {
    return {torch->data, torch->dtype, torch->shape, torch->strides};
  }
  *array = Take<Array>(object, name, expected);
  return ToView<View>(*array, name);
}

constexpr const char* kReadable = "an array on the CPU (numpy, torch or DLPack)";
constexpr const char* kWritable = "a writable array on the CPU (numpy, torch or DLPack)";

}  // namespace

InputArray::InputArray(nb::handle object, const char* name)
    : object_(nb::borrow(object)), view_(TakeView<TensorView>(object, name, kReadable, &array_)) {}

OutputArray::OutputArray(nb::handle object, const char* name)
    : object_(nb::borrow(object)),
      view_(TakeView<MutableTensorView>(object, name, kWritable, &array_)) {}

LseArray::LseArray(nb::handle object, const TensorView& q) {
  if (object.is_none()) return;
  array_ = Take<decltype(array_)>(object, "lse", kWritable);
  const auto rows = static_cast<size_t>(q.rows());
  const auto heads = static_cast<size_t>(q.heads());
  if (array_.ndim() != 2 || array_.shape(0) != rows || array_.shape(1) != heads) {
    Refuse("lse", "shape [" + std::to_string(rows) + ", " + std::to_string(heads) + "]",
           ShapeText(array_));
  }
  if (array_.dtype() != nb::dtype<float>()) Refuse("lse", "float32", "another dtype");
  const bool contiguous =
      array_.size() == 0 || ((array_.stride(1) == 1 || heads == 1) &&
                             (array_.stride(0) == static_cast<int64_t>(heads) || rows == 1));
  if (!contiguous) Refuse("lse", "a C-contiguous array", "other strides");
  data_ = static_cast<float*>(array_.data());
}

}  // namespace attndb::python
