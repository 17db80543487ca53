#include "python/src/torch_tensor.h"

#include <array>
#include <cstddef>
#include <cstdint>

#include "attndb/dtype.h"

namespace attndb::python {
namespace {

namespace nb = nanobind;

// Attributes of torch, which are read once. Their references are never released, as torch stays.
struct Torch {
  nb::handle tensor, parameter, strided, float32, float16, bfloat16;
  nb::handle shape, stride, dtype, layout, is_cpu, is_neg, data_ptr;  // Interned names.
};

nb::handle Keep(nb::object object) { return object.release(); }
nb::handle Name(const char* name) { return PyUnicode_InternFromString(name); }

Torch LoadTorch(nb::handle torch) {
  return {.tensor = Keep(torch.attr("Tensor")),
          .parameter = Keep(torch.attr("nn").attr("Parameter")),
          .strided = Keep(torch.attr("strided")),
          .float32 = Keep(torch.attr("float32")),
          .float16 = Keep(torch.attr("float16")),
          .bfloat16 = Keep(torch.attr("bfloat16")),
          .shape = Name("shape"),
          .stride = Name("stride"),
          .dtype = Name("dtype"),
          .layout = Name("layout"),
          .is_cpu = Name("is_cpu"),
          .is_neg = Name("is_neg"),
          .data_ptr = Name("data_ptr")};
}

// Returns null until the program has imported torch. A program that has a tensor has imported it.
const Torch* FindTorch() {
  static bool is_loaded = false;  // The interpreter lock guards both.
  static Torch torch;
  if (!is_loaded) {
    const nb::dict modules = nb::cast<nb::dict>(nb::module_::import_("sys").attr("modules"));
    if (!modules.contains("torch") || !nb::hasattr(modules["torch"], "nn")) return nullptr;
    torch = LoadTorch(modules["torch"]);
    is_loaded = true;
  }
  return &torch;
}

nb::object Get(nb::handle object, nb::handle name) {
  PyObject* const value = PyObject_GetAttr(object.ptr(), name.ptr());
  if (value == nullptr) throw nb::python_error();
  return nb::steal(value);
}

nb::object Call(nb::handle object, nb::handle name) {
  PyObject* const value = PyObject_CallMethodNoArgs(object.ptr(), name.ptr());
  if (value == nullptr) throw nb::python_error();
  return nb::steal(value);
}

// Returns false if `numbers` is not a tuple of three numbers.
bool ReadThree(nb::handle numbers, std::array<int64_t, 3>* result) {
  if (!PyTuple_Check(numbers.ptr()) || PyTuple_GET_SIZE(numbers.ptr()) != 3) return false;
  for (size_t i = 0; i < 3; ++i) {
    (*result)[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(numbers.ptr(), static_cast<Py_ssize_t>(i)));
    if ((*result)[i] == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
  }
  return true;
}

std::optional<DType> ReadDType(const Torch& torch, nb::handle dtype) {
  if (dtype.is(torch.float32)) return DType::kFloat32;
  if (dtype.is(torch.float16)) return DType::kFloat16;
  if (dtype.is(torch.bfloat16)) return DType::kBFloat16;
  return std::nullopt;
}

}  // namespace

std::optional<MutableTensorView> TorchView(nb::handle object) {
  const Torch* const torch = FindTorch();
  if (torch == nullptr) return std::nullopt;
  const nb::handle type = object.type();
  // Other subclasses may have no memory of their own (FakeTensor, DTensor): DLPack decides.
  if (!type.is(torch->tensor) && !type.is(torch->parameter)) return std::nullopt;
  const std::optional<DType> dtype = ReadDType(*torch, Get(object, torch->dtype));
  MutableTensorView view;
  // A tensor with the negative bit set stands for the negated values of its memory.
  if (!dtype.has_value() || !Get(object, torch->is_cpu).is(nb::bool_(true)) ||
      !Get(object, torch->layout).is(torch->strided) ||
      !Call(object, torch->is_neg).is(nb::bool_(false)) ||
      !ReadThree(Get(object, torch->shape), &view.shape) ||
      !ReadThree(Call(object, torch->stride), &view.strides)) {
    return std::nullopt;
  }
  view.dtype = *dtype;
  view.data = PyLong_AsVoidPtr(Call(object, torch->data_ptr).ptr());
  if (view.data == nullptr && PyErr_Occurred() != nullptr) throw nb::python_error();
  return view;
}

}  // namespace attndb::python
