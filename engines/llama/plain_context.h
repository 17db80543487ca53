// Plain llama.cpp over the weights of a LlamaEngine: no hook, its own KV cache. attndb's results
// and speed are compared with it.
//
// Errors:  kInvalidArgument (an id out of the vocabulary, no token); kResourceExhausted (more
//          tokens than the context holds); kInternal (llama_decode failed).
// Threads: one thread at a time, and not at the same time as its engine. The engine outlives it.
#ifndef ATTNDB_ENGINES_LLAMA_PLAIN_CONTEXT_H_
#define ATTNDB_ENGINES_LLAMA_PLAIN_CONTEXT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "attndb/result.h"
#include "attndb/types.h"

namespace attndb::llama {

class PlainContext {
 public:
  using OnLogits = std::function<void(uint64_t index, std::span<const float> logits)>;
  using KeepGoing = std::function<bool()>;

  ~PlainContext();
  PlainContext(const PlainContext&) = delete;
  PlainContext& operator=(const PlainContext&) = delete;

  // Runs `tokens` after those that it holds. `on_logits`, if any: after every token, with its index
  // in `tokens`; else only the last token's logits are computed. `keep_going`, if any: after every
  // batch but the last; false stops with kCancelled.
  Status Run(std::span<const TokenId> tokens, const OnLogits& on_logits = nullptr,
             const KeepGoing& keep_going = nullptr);

  // Logits after the last token of the last Run; valid until the next Run, which overwrites them.
  // Errors: kFailedPrecondition: nothing has run, or the last Run failed.
  Result<std::span<const float>> Logits() const;

  uint64_t num_tokens() const;
  // Fills the cache with `num_copies` more copies of what it holds, at the same positions, for
  // measures of speed: a long cache without the time to read one. num_tokens() stays as it is.
  // REQUIRES: PlainOptions::repeats.
  Status Repeat(uint32_t num_copies);
  // llama.cpp's own context shift: `n` tokens behind the first keep_first leave, those behind them
  // take their places, and their keys are turned for it. Errors: kInternal (the cache can't).
  // REQUIRES: keep_first + n < num_tokens().
  Status DropOldest(uint64_t keep_first, uint64_t n);
  // Keeps the first `num_tokens`. REQUIRES: num_tokens <= num_tokens().
  void Crop(uint64_t num_tokens);

 private:
  friend class PlainContextBuilder;
  class Impl;
  explicit PlainContext(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_PLAIN_CONTEXT_H_
