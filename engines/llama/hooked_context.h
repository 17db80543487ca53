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
#include <optional>
#include <span>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"
#include "engines/llama/attention_hook.h"
#include "engines/llama/batch_cursor.h"
#include "engines/llama/llama_engine.h"
#include "engines/llama/llama_handles.h"
#include "engines/llama/model_probe.h"
#include "engines/llama/thread_choice.h"

namespace attndb::llama {

// Rows of logits that one batch gives at most: they take vocab_size * 4 bytes each, twice.
inline constexpr uint32_t kLogitRowsMax = 64;

class HookedContext {
 public:
  // `spec` and the model behind `factory` outlive this. `options.num_threads` is the most; with
  // `adapts` fewer run where that is faster.
  static Result<std::unique_ptr<HookedContext>> Make(const ModelSpec& spec,
                                                     const EngineOptions& options, bool adapts,
                                                     uint32_t vocab_size,
                                                     const ContextFactory& factory);

  struct RunOptions {
    // Logits after every token; false: after the last token of each entry.
    bool all_logits = false;
    const OnQueries* on_queries = nullptr;  // Not owned; may be null.
    // Takes how each entry fared, and then one that fails ends only itself. Null: all end.
    std::vector<Status>* statuses = nullptr;
  };

  // Runs the entries' tokens after those that their sessions hold. Sessions that fail are cropped
  // back; so are all, if the batch fails.
  // REQUIRES: 1 to ubatch_tokens tokens in all, each entry one at least; ids in the vocabulary; no
  // session twice; at most kLogitRowsMax logit rows.
  Status Run(std::span<const BatchEntry> entries, const RunOptions& options);

  // Row `idx` of the last successful run, in the order of the batch's tokens that have logits.
  std::span<const float> LogitRow(size_t idx) const;
  size_t num_logit_rows() const { return logit_tokens_.size(); }

  EngineCacheUse CacheUse() const;
  ThreadReport threads() const;

 private:
  // Only where the number of threads may change are they watched.
  HookedContext(const ModelSpec& spec, const EngineOptions& options, bool adapts,
                uint32_t vocab_size)
      : hook_(spec, options.variant, adapts ? options.num_threads : 0),
        vocab_size_(vocab_size),
        num_threads_(options.num_threads) {}

  // Runs the batch. The code is llama_decode's.
  int32_t Decode(const llama_batch& batch);
  Status FillBatch(std::span<const BatchEntry> entries, bool all_logits);
  void ClearBatch();
  // Crops a session to what it held before the run. `why` it is cropped, or why it can't be.
  static Status CropBack(const SessionRows& rows, const Status& why);
  // After a run that ended with `status`: crops what failed, frees llama.cpp's cells.
  Status Settle(Status status, std::vector<Status>* statuses);

  AttentionHook hook_;  // Before context_, which calls it.
  const uint32_t vocab_size_;
  const uint32_t num_threads_;
  std::optional<ThreadChoice> choice_;  // Where the machine decides.
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
