// Checks of the callers' layers and of arrays against a layer's shape, before anything is done with
// them.
//
// Errors:  kInvalidArgument naming the array, the layer, what was expected and what was found.
// Threads: pure functions.
#ifndef ATTNDB_SESSION_VIEW_CHECK_H_
#define ATTNDB_SESSION_VIEW_CHECK_H_

#include <cstdint>
#include <string_view>

#include "attndb/status.h"
#include "attndb/tensor_view.h"
#include "attndb/types.h"

namespace attndb::internal {

// A layer of a model of so many.
Status CheckLayer(LayerId layer, uint32_t num_layers);

// The position of a context's, or a question's, first token.
Status CheckFirstPosition(int64_t first_position);

// An input [rows, num_heads, dim] with at least one row.
Status CheckInput(std::string_view name, LayerId layer, const TensorView& view, uint32_t num_heads,
                  uint32_t dim);

// What an output is made from: gives its shape, and the type that it may have beside float32.
struct OutputSource {
  std::string_view name;  // For the message.
  int64_t num_rows = 0;
  uint32_t num_heads = 0;
  uint32_t dim = 0;
  DType dtype = DType::kFloat32;
};

// An output [num_rows, num_heads, dim] of float32 or the source's dtype, whose elements are all
// different.
Status CheckOutput(std::string_view name, LayerId layer, const MutableTensorView& view,
                   const OutputSource& source);

}  // namespace attndb::internal

#endif  // ATTNDB_SESSION_VIEW_CHECK_H_
