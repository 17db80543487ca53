// What one attention site of the graph computes, as a LayerSpec, and whether attndb can honour it.
//
// Everything comes from the nodes themselves (shapes, op parameters, the ROPE node before the
// keys), never from metadata: the graph is what runs.
//
// Threads: stateless.
// Errors:  kUnsupported, naming the layer and what attndb can't honour.
#ifndef ATTNDB_ENGINES_LLAMA_LAYER_READER_H_
#define ATTNDB_ENGINES_LLAMA_LAYER_READER_H_

#include "attndb/result.h"
#include "attndb/tensor_view.h"
#include "attndb/types.h"
#include "engines/llama/attention_graph.h"

namespace attndb::llama {

// Heads, dims, scale, soft cap and denominators; without sliding window (that is in the mask) and
// RoPE. Refuses ALiBi, sinks that are no weights of one for each q head, sparse attention, several
// streams, transposed V, quantised KV, unknown types.
Result<LayerSpec> ReadLayer(const AttentionSite& site);

// The rotary embedding of the keys that the site stores. kNone layout if they are not rotated.
// Refuses M-RoPE, rotation of other than the leading channels, and keys that are changed after it.
Result<Rope> ReadRope(const AttentionSite& site);

// Views of what flows through a site in a batch of num_rows() tokens.
// REQUIRES: ReadLayer succeeded for the site.
TensorView QueryView(const ggml_tensor* attention);
MutableTensorView OutputView(ggml_tensor* attention);
// `rows`: src[0] of a store; [heads * dim, num_tokens] in ggml's order.
TensorView RowsView(const ggml_tensor* rows, int64_t num_heads, int64_t dim);

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_LAYER_READER_H_
