// A llama.cpp context whose attention is attndb's, and the batches that it runs.
//
// Its own KV cache has cells for one ubatch; they are freed after each batch, so its memory does
// not grow with the context.
//
// Threads: one thread at a time.
#ifndef ATTNDB_ENGINES_LLAMA_HOOKED_CONTEXT_H_
#define ATTNDB_ENGINES_LLAMA_HOOKED_CONTEXT_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"
#include "engines/llama/attention_hook.h"
#include "engines/llama/batch_cursor.h"
#include "engines/llama/llama_engine.h"
#include "engines/llama/llama_handles.h"
#include "engines/llama/model_probe.h"

namespace attndb::llama {

// Rows of logits that one batch gives at most: they take vocab_size * 4 bytes each, twice.
inline constexpr uint32_t kLogitRowsMax = 64;

class HookedContext {
 public:
  // `spec` and the model behind `factory` outlive this.
  static Result<std::unique_ptr<HookedContext>> Make(const ModelSpec& spec,
                                                     const EngineOptions& options,
                                                     uint32_t vocab_size,
                                                     const ContextFactory& factory);

  struct RunOptions {
    // Logits after every token; false: after the last token of each entry.
    bool all_logits = false;
    const OnQueries* on_queries = nullptr;  // Not owned; may be null.
  };

  // Runs the entries' tokens after those that their sessions hold. On failure all sessions are
  // cropped back.
  // REQUIRES: 1 to ubatch_tokens tokens in all, each entry one at least; ids in the vocabulary; no
  // session twice; at most kLogitRowsMax logit rows.
  Status Run(std::span<const BatchEntry> entries, const RunOptions& options);

  // Row `idx` of the last successful run, in the order of the batch's tokens that have logits.
  std::span<const float> LogitRow(size_t idx) const;
  size_t num_logit_rows() const { return logit_tokens_.size(); }

  EngineCacheUse CacheUse() const;

 private:
  HookedContext(const ModelSpec& spec, HookVariant variant, uint32_t vocab_size)
      : hook_(spec, variant), vocab_size_(vocab_size) {}

  Status FillBatch(std::span<const BatchEntry> entries, bool all_logits);
  void ClearBatch();

  AttentionHook hook_;  // Before context_, which calls it.
  const uint32_t vocab_size_;
  ContextHandle context_;

  // The batch, in llama.cpp's terms.
  std::vector<llama_token> tokens_;
  std::vector<llama_pos> positions_;
  std::vector<int32_t> num_sequences_;
  std::vector<llama_seq_id> sequences_;
  std::vector<llama_seq_id*> sequence_pointers_;
  std::vector<int8_t> wants_logits_;
  std::vector<SessionRows> rows_;
  std::vector<int32_t> logit_tokens_;  // Indices in the batch.
};

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_HOOKED_CONTEXT_H_
