// The inside of PlainContext, and how an engine makes one.
#ifndef ATTNDB_ENGINES_LLAMA_PLAIN_CONTEXT_IMPL_H_
#define ATTNDB_ENGINES_LLAMA_PLAIN_CONTEXT_IMPL_H_

#include <cstdint>
#include <memory>
#include <span>

#include "attndb/result.h"
#include "engines/llama/hooked_context.h"
#include "engines/llama/llama_engine.h"
#include "engines/llama/llama_handles.h"
#include "engines/llama/model_probe.h"
#include "engines/llama/plain_context.h"
#include "engines/llama/tokenizer.h"

namespace attndb::llama {

inline constexpr uint32_t kPlainBatchTokens = 512;  // llama.cpp's own default ubatch.

class PlainContext::Impl {
 public:
  Status RunBatch(std::span<const TokenId> part, bool all_logits, bool last_logits);
  std::span<const float> LogitsAt(int32_t idx) const;

  ContextHandle context;
  const Tokenizer* tokenizer = nullptr;  // Owned by the engine.
  uint64_t num_tokens = 0;
  bool has_logits = false;  // The last Run gave some.
};

class PlainContextBuilder {
 public:
  static Result<std::unique_ptr<PlainContext>> Make(const PlainOptions& options,
                                                    uint32_t num_threads,
                                                    const Tokenizer* tokenizer,
                                                    const ContextFactory& factory);
};

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_PLAIN_CONTEXT_IMPL_H_
