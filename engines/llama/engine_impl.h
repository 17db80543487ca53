// The inside of LlamaEngine: what its parts share.
#ifndef ATTNDB_ENGINES_LLAMA_ENGINE_IMPL_H_
#define ATTNDB_ENGINES_LLAMA_ENGINE_IMPL_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engines/llama/chat/grammar_process.h"
#include "engines/llama/chat_template.h"
#include "engines/llama/hooked_context.h"
#include "engines/llama/llama_engine.h"
#include "engines/llama/llama_handles.h"
#include "engines/llama/tokenizer.h"
#include "engines/llama/weight_files.h"

namespace attndb::llama {

using Clock = std::chrono::steady_clock;
using Pooling = enum llama_pooling_type;  // A function of llama.cpp has the name, too.

inline double MillisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

class LlamaEngine::Impl {
 public:
  // Loads model and adapters, probes, makes the context.
  Status Open(const std::string& model_name);

  // Errors: kInvalidArgument: no token, an id out of the vocabulary, a session of another spec.
  Status CheckRun(const Session& session, std::span<const TokenId> tokens) const;
  Status Prefill(Session& session, std::span<const TokenId> tokens, const PrefillOptions& options);
  Status Decode(Session& session, TokenId token, const WindowOptions& window);
  Status DecodeBatch(std::span<const BatchEntry> entries, std::vector<Status>* statuses = nullptr);
  Result<Generation> Generate(Session& session, std::span<const TokenId> rest,
                              const GenerateOptions& options);
  Result<std::unique_ptr<Reply>> BeginReply(const GenerateOptions& generate) const;
  Status CheckGrammar(const ReplyConstraint& constraint) const;
  Result<std::unique_ptr<PlainContext>> OpenPlain(const PlainOptions& plain) const;
  Result<std::unique_ptr<Embedder>> OpenEmbedder(uint64_t max_tokens) const;
  uint64_t EmbedderBytes(uint64_t max_tokens) const;
  Result<std::span<const float>> Logits(size_t entry) const;
  // The tokens of parts behind a text of which nothing is known.
  Result<std::vector<TokenId>> BehindText(const PromptParts& parts,
                                          const TokenizeLimits& limits = {}) const;
  EngineCacheUse CacheUse() const { return hooked_->CacheUse(); }
  ThreadReport threads() const { return hooked_->threads(); }

  EngineOptions options;
  ModelInfo info;
  ModelSpec spec;
  std::optional<Tokenizer> tokenizer;
  std::optional<ChatTemplate> chat;
  std::unique_ptr<GrammarProcess> grammars;

 private:
  // Forgets the logits of the call before. Errors: kFailedPrecondition: a callback of a Prefill
  // that is under way calls, and would overwrite its logits.
  Status BeginCall();
  Status RunPrefill(Session& session, std::span<const TokenId> tokens,
                    const PrefillOptions& options);
  // One pass, by the weights that were loaded.
  Status RunPass(std::span<const BatchEntry> entries, const HookedContext::RunOptions& run);
  // Opens the files of a model after they were checked.
  Status OpenChecked(const std::vector<std::string>& files);
  Status LoadModel();
  Status LoadAdapters();
  void ReadInfo();
  void ReadTemplate();
  // REQUIRES: info.architecture is read.
  void ReadContextLengths();
  void ReadPooling();
  // Finds out whether llama.cpp can pool what this model's graph gives: embedder.cc.
  Status CheckPooling();
  ContextHandle MakeContext(llama_context_params params) const;

  bool adapts_threads_ = false;
  WeightFiles weights_;
  ModelHandle model_;                          // Before all that points into it.
  std::vector<llama_adapter_lora*> adapters_;  // Owned by the model.
  std::unique_ptr<HookedContext> hooked_;
  // How the embeddings of tokens become the one of their text; NONE: the model makes none.
  Pooling pooling_ = LLAMA_POOLING_TYPE_NONE;
  // Entry of the last call -> its row of logits; none: the entry failed. Empty: the call failed.
  std::vector<std::optional<size_t>> entry_rows_;
  bool in_prefill_ = false;
};

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_ENGINE_IMPL_H_
