// A torch tensor on the CPU as a view, by its own accessors.
//
// Threads: needs the interpreter lock.
#ifndef ATTNDB_PYTHON_SRC_TORCH_TENSOR_H_
#define ATTNDB_PYTHON_SRC_TORCH_TENSOR_H_

#include <nanobind/nanobind.h>

#include <optional>

#include "attndb/tensor_view.h"

namespace attndb::python {

// Returns the view of `object`, which keeps the memory alive. Returns none if `object` is no
// torch.Tensor or Parameter, or has no plain memory of three dimensions on the CPU in one of
// attndb's dtypes.
std::optional<MutableTensorView> TorchView(nanobind::handle object);

}  // namespace attndb::python

#endif  // ATTNDB_PYTHON_SRC_TORCH_TENSOR_H_
