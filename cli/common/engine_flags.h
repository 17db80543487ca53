// The flags of commands that run a model, and the engine and sampler that they describe.
//
// Threads: one thread at a time.
#ifndef ATTNDB_CLI_COMMON_ENGINE_FLAGS_H_
#define ATTNDB_CLI_COMMON_ENGINE_FLAGS_H_

#include <cstdint>
#include <string>

#include "attndb/dtype.h"
#include "attndb/result.h"
#include "attndb/stats.h"
#include "cli/environment.h"
#include "cli/flags.h"
#include "engines/llama/llama_engine.h"

namespace attndb::cli {

class ModelFlags {
 public:
  ModelFlags();

  void AddTo(Flags* flags);
  // The value of --model; else $ATTNDB_MODEL, else "smollm2".
  std::string model() const;

  // Loads the model. `kv_dtype` and `unrotated_keys` describe its contexts. Errors: as
  // LlamaEngine::Open; kInvalidArgument (--rope-scaling, --chat-template).
  Result<llama::LlamaEngine> Open(Environment* env, DType kv_dtype,
                                  bool unrotated_keys = false) const;
  // Loads the model with `options`, except for the model's own flags.
  Result<llama::LlamaEngine> OpenWith(Environment* env, llama::EngineOptions options) const;
  // Loads the model for a stored context. Without --model, uses the file that made the context, if
  // it still exists. Uses the context's type of K and V, and the RoPE scaling of its import.
  // Errors: as Open; kInvalidArgument (--rope-scaling differs).
  Result<llama::LlamaEngine> OpenFor(Environment* env, const ContextInfo& context) const;
  // Does the same without a particular context: with the scaling of the flags.
  Result<llama::LlamaEngine> OpenLike(Environment* env, const ContextInfo& context) const;

 private:
  Result<llama::LlamaEngine> Open(Environment* env, const std::string& model,
                                  const llama::EngineOptions& options) const;
  std::string ModelOf(Environment* env, const ContextInfo& context) const;
  // Sets the options of the flags. Errors: kInvalidArgument (--rope-scaling); as ReadText
  // (--chat-template).
  Status Fill(llama::EngineOptions* options) const;

  std::string model_;  // Empty: not given.
  std::string rope_scaling_ = "model";
  std::string chat_template_;  // A file; empty: not given.
  uint32_t num_threads_ = 0;
  bool copies_weights_ = false;
};

class SamplerFlags {
 public:
  void AddTo(Flags* flags);
  bool greedy() const { return sampler_.temperature == 0; }

  llama::GenerateOptions ToOptions() const;
  // Returns the fields of a request to a server.
  Json ToRequest() const;

 private:
  uint32_t max_tokens_ = 256;
  llama::SamplerOptions sampler_;
};

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_ENGINE_FLAGS_H_
