// Embeddings of token ids: plain llama.cpp over the weights of a LlamaEngine, with a KV cache of
// its own and no hook. They are what llama.cpp's server gives by default: pooled over the tokens as
// the model file says (mean, first or last token), and of length 1.
//
// An input runs in parts of kEmbedderPartTokens tokens, so that memory beside the KV cache does not
// grow with it. This is exact, as attention of every model that the engine opens is causal
// (model_probe.h): no token's own embedding depends on a later part.
//
// Errors:  kInvalidArgument (no token; an id out of the vocabulary; more tokens than it was opened
//          for); kCancelled; kInternal (llama_decode failed, or the embedding has no direction).
// Cost:    a pass of the model over the input; at tokens that are pooled the layer that makes
//          logits runs, too, which llama.cpp does not leave out.
// Threads: one thread at a time; it may run beside its engine, which outlives it, and then both
//          share the cores. A part runs on the engine's num_threads, or as UseThreads says.
#ifndef ATTNDB_ENGINES_LLAMA_EMBEDDER_H_
#define ATTNDB_ENGINES_LLAMA_EMBEDDER_H_

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"

namespace attndb::llama {

// Its logits take the vocabulary times four bytes a token, twice.
inline constexpr uint32_t kEmbedderPartTokens = 128;

class Embedder {
 public:
  // Called before each part runs, with its number of tokens; false ends with kCancelled.
  using OnPart = std::function<bool(uint64_t num_tokens)>;

  virtual ~Embedder() = default;

  // The embedding of one input, [ModelInfo::embedding_size].
  virtual Result<std::vector<float>> Embed(std::span<const TokenId> tokens,
                                           const OnPart& on_part = nullptr) = 0;

  // For the parts from the next one on. OnPart may call it, of the part that it is told of.
  // REQUIRES: num_threads >= 1.
  virtual void UseThreads(uint32_t num_threads) = 0;
  virtual uint32_t num_threads() const = 0;
};

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_EMBEDDER_H_
