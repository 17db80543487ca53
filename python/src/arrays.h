// Arrays of Python as views: numpy, torch on the CPU, or any DLPack array. Nothing is copied.
//
// A torch tensor's own accessors give pointer, shape and strides. Its __dlpack__ is written in
// Python and takes ten times as long (12 us instead of 1 us).
//
// Threads: construction and destruction need the interpreter lock. The view itself does not.
#ifndef ATTNDB_PYTHON_SRC_ARRAYS_H_
#define ATTNDB_PYTHON_SRC_ARRAYS_H_

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "attndb/tensor_view.h"

namespace attndb::python {

// An array for reading, and its view. Errors call the array `name`.
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

// An array for writing. Throws as InputArray, and if the array is read-only.
class OutputArray {
 public:
  OutputArray(nanobind::handle object, const char* name);
  const MutableTensorView& view() const { return view_; }

 private:
  nanobind::object object_;
  nanobind::ndarray<nanobind::device::cpu> array_;
  MutableTensorView view_;
};

// An lse array [num_rows, num_q_heads], float32, C-contiguous; empty for None.
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
