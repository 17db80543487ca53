// Arrays of Python as views: numpy, torch on the CPU, or whatever speaks DLPack. Nothing is copied.
//
// Torch's tensors are asked for pointer, shape and strides: its __dlpack__ is written in Python and
// takes ten times as long (12 us against 1 us each).
//
// Threads: needs the interpreter lock, at construction and destruction. The view itself does not.
#ifndef ATTNDB_PYTHON_SRC_ARRAYS_H_
#define ATTNDB_PYTHON_SRC_ARRAYS_H_

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "attndb/tensor_view.h"

namespace attndb::python {

// An array that is read, and its view. `name` is what errors call it.
// Throws StatusError kInvalidArgument: not an array on the CPU, not three-dimensional, another
// dtype than float32, float16 and bfloat16.
class InputArray {
 public:
  InputArray(nanobind::handle object, const char* name);
  const TensorView& view() const { return view_; }

 private:
  nanobind::object object_;  // This and array_ keep the memory alive.
  nanobind::ndarray<nanobind::ro, nanobind::device::cpu> array_;
  TensorView view_;
};

// An array that is written. Throws as InputArray, and for one that is read-only.
class OutputArray {
 public:
  OutputArray(nanobind::handle object, const char* name);
  const MutableTensorView& view() const { return view_; }

 private:
  nanobind::object object_;
  nanobind::ndarray<nanobind::device::cpu> array_;
  MutableTensorView view_;
};

// An lse array [num_rows, num_q_heads], float32, C-contiguous; None is none.
class LseArray {
 public:
  LseArray(nanobind::handle object, const TensorView& q);
  float* data() const { return data_; }

 private:
  nanobind::ndarray<nanobind::device::cpu> array_;
  float* data_ = nullptr;
};

}  // namespace attndb::python

#endif  // ATTNDB_PYTHON_SRC_ARRAYS_H_
