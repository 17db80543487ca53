// Finds the attention of each layer in a ggml graph of llama.cpp, by structure: which nodes store
// new keys and values into the KV cache, and which node attends over them. Names are not looked at.
//
// A site is: two SET_ROWS into two tensors of the KV cache with nothing computed between them (so
// that the rows of both are in memory at the second), then a FLASH_ATTN_EXT that reads just these
// tensors. The n-th site is attention layer n. Anything else is refused with what was found.
//
// Threads: one thread.
// Errors:  kUnsupported, naming the layer and the node.
#ifndef ATTNDB_ENGINES_LLAMA_ATTENTION_GRAPH_H_
#define ATTNDB_ENGINES_LLAMA_ATTENTION_GRAPH_H_

#include <ggml.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "attndb/result.h"
#include "attndb/types.h"

namespace attndb::llama {

// The nodes of one layer. Pointers are into the graph, valid while llama.cpp keeps it.
struct AttentionSite {
  LayerId layer = 0;
  ggml_tensor* k_store = nullptr;    // SET_ROWS: src[0] = new rows of K.
  ggml_tensor* v_store = nullptr;    // SET_ROWS: src[0] = new rows of V.
  ggml_tensor* attention = nullptr;  // FLASH_ATTN_EXT: src = q, k, v, mask.
  bool k_first = true;               // Order of the stores in the graph.
};

// The tensor that owns the memory that `tensor` views.
const ggml_tensor* RootOf(const ggml_tensor* tensor);

// Ops that compute nothing: views.
bool IsEmptyOp(ggml_op op);

// True if `node` stores rows into a tensor that outlives the graph and is no weight: the KV cache.
bool IsCacheStore(const ggml_tensor* node);

// A short description for messages: "FLASH_ATTN_EXT node '__fattn__-0'".
std::string Describe(const ggml_tensor* node);

// Reads the nodes of one graph in order.
class GraphReader {
 public:
  // To be called at the start of each graph.
  void Reset() { *this = GraphReader(); }

  // Takes the next node. Gives a site when `node` completes one. O(1) but for the nodes of a site.
  Result<std::optional<AttentionSite>> Visit(ggml_tensor* node);

  // Notes a node that is neither SET_ROWS nor FLASH_ATTN_EXT: Visit without its cost.
  void Skip(ggml_op op) {
    if (num_pending_ == 1 && !IsEmptyOp(op)) interrupted_ = true;
  }

  // To be called after the last node. Errors: a store that no attention reads.
  Status Finish() const;

  uint32_t num_sites() const { return num_sites_; }

 private:
  Status AddStore(ggml_tensor* node);
  Result<AttentionSite> CloseSite(ggml_tensor* attention);

  std::array<ggml_tensor*, 2> pending_ = {};  // Stores that no attention has read yet.
  uint32_t num_pending_ = 0;
  bool interrupted_ = false;  // Something was computed between the two stores.
  uint32_t num_sites_ = 0;
};

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_ATTENTION_GRAPH_H_
