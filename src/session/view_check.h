// Checks the caller's layers and arrays against a layer's shape, before they are used.
//
// Errors:  kInvalidArgument naming the array, the layer, what was expected and what was found.
// Threads: pure functions.
#ifndef ATTNDB_SESSION_VIEW_CHECK_H_
#define ATTNDB_SESSION_VIEW_CHECK_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "attndb/status.h"
#include "attndb/tensor_view.h"
#include "attndb/types.h"

namespace attndb::internal {

// The number of rows in a message: "1 row", "2,000 rows". REQUIRES: num_rows >= 0.
std::string RowsText(int64_t num_rows);

// Ok if a model of num_layers has the layer.
Status CheckLayer(LayerId layer, uint32_t num_layers);

// Ok if a context, or a question, may begin at that position.
Status CheckFirstPosition(int64_t first_position);

// Ok if `view` is an input [rows, num_heads, dim] with at least one row.
Status CheckInput(std::string_view name, LayerId layer, const TensorView& view, uint32_t num_heads,
                  uint32_t dim);

// Ok if `q` is an input of the layer.
Status CheckQuery(const ModelSpec& spec, LayerId layer, const TensorView& q);

// The array that an output is made from. It gives the output's shape, and the type that the output
// may have besides float32.
struct OutputSource {
  std::string_view name;  // For the message.
  int64_t num_rows = 0;
  uint32_t num_heads = 0;
  uint32_t dim = 0;
  DType dtype = DType::kFloat32;
};

// Ok if `view` is an output [num_rows, num_heads, dim] of float32 or the source's dtype, whose
// elements are all different.
Status CheckOutput(std::string_view name, LayerId layer, const MutableTensorView& view,
                   const OutputSource& source);

}  // namespace attndb::internal

#endif  // ATTNDB_SESSION_VIEW_CHECK_H_
