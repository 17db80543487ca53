// What a model's layers attend to, found out before the first token: llama.cpp builds its graph for
// a few tokens, the graph is read, and the run is stopped before it computes anything that matters.
//
// The mask is checked by its content: each token must see all tokens before it, or exactly the last
// w of them (sliding window). To see a window of w tokens the probe builds a graph of w + 2.
//
// Threads: one thread.
// Errors:  kUnsupported, naming the layer and what attndb can't honour; kResourceExhausted;
//          kInvalidArgument (llama.cpp asserted something of the model, under an AbortGuard).
#ifndef ATTNDB_ENGINES_LLAMA_MODEL_PROBE_H_
#define ATTNDB_ENGINES_LLAMA_MODEL_PROBE_H_

#include <functional>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"
#include "engines/llama/llama_handles.h"

namespace attndb::llama {

// Makes a context of the model with adapters attached; null if llama.cpp refuses.
using ContextFactory = std::function<ContextHandle(const llama_context_params& params)>;

// Parameters that all contexts share: CPU, flash attention, unified KV, no timings.
llama_context_params BaseContextParams(uint32_t num_threads);

// The layers of `model`, in the order of the graph.
Result<std::vector<LayerSpec>> ProbeModel(const llama_model* model, const ContextFactory& factory);

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_MODEL_PROBE_H_
