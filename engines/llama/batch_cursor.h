// Which rows of a batch belong to which session. llama.cpp's graph does not know sequences; with a
// unified KV cache and n_batch = n_ubatch it keeps the order of the batch, so the batch remembers.
#ifndef ATTNDB_ENGINES_LLAMA_BATCH_CURSOR_H_
#define ATTNDB_ENGINES_LLAMA_BATCH_CURSOR_H_

#include <cstdint>
#include <type_traits>

#include "attndb/session.h"
#include "attndb/tensor_view.h"

namespace attndb::llama {

// A run of rows of the batch.
struct SessionRows {
  Session* session = nullptr;
  int64_t first_row = 0;
  int64_t num_rows = 0;
  uint64_t num_tokens = 0;  // Tokens that the session holds when the batch is done.
};

// The rows of `view` that belong to `rows`. REQUIRES: they are inside it.
template <typename Pointer>
BasicTensorView<Pointer> RowsOf(BasicTensorView<Pointer> view, const SessionRows& rows) {
  using Byte = std::conditional_t<std::is_same_v<Pointer, const void*>, const char, char>;
  const int64_t offset = rows.first_row * view.strides[0];
  view.data = static_cast<Byte*>(view.data) + offset * static_cast<int64_t>(DTypeBytes(view.dtype));
  view.shape[0] = rows.num_rows;
  return view;
}

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_BATCH_CURSOR_H_
