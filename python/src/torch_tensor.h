// A torch tensor on the CPU as a view, by its own accessors.
//
// Threads: needs the interpreter lock.
#ifndef ATTNDB_PYTHON_SRC_TORCH_TENSOR_H_
#define ATTNDB_PYTHON_SRC_TORCH_TENSOR_H_

#include <nanobind/nanobind.h>

#include <optional>

#include "attndb/tensor_view.h"

namespace attndb::python {

// The view of `object`, whose memory it keeps alive; none if it is no torch.Tensor or Parameter, or
// one that has no plain memory of three dimensions on the CPU in a dtype of ours.
std::optional<MutableTensorView> TorchView(nanobind::handle object);

}  // namespace attndb::python

#endif  // ATTNDB_PYTHON_SRC_TORCH_TENSOR_H_
