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
  // What --model says; else $ATTNDB_MODEL, else "smollm2".
  std::string model() const;

  // Loads the model. `kv_dtype` and `unrotated_keys` say what its contexts hold. Errors: as
  // LlamaEngine::Open; kInvalidArgument (--rope-scaling, --chat-template).
  Result<llama::LlamaEngine> Open(Environment* env, DType kv_dtype,
                                  bool unrotated_keys = false) const;
  // Loads the model with `options`, but for the model's own flags.
  Result<llama::LlamaEngine> OpenWith(Environment* env, llama::EngineOptions options) const;
  // Loads the model for what is asked of a stored context: where no --model is given, the file that
  // made it, if that is still there; with its type of K and V, and with the RoPE scaling that it
  // was imported with. Errors: as Open; kInvalidArgument (--rope-scaling says another one).
  Result<llama::LlamaEngine> OpenFor(Environment* env, const ContextInfo& context) const;
  // The same for what is asked of no context in particular: with the scaling that the flags say.
  Result<llama::LlamaEngine> OpenLike(Environment* env, const ContextInfo& context) const;

 private:
  Result<llama::LlamaEngine> Open(Environment* env, const std::string& model,
                                  const llama::EngineOptions& options) const;
  std::string ModelOf(Environment* env, const ContextInfo& context) const;
  // Sets what the flags say. Errors: kInvalidArgument (--rope-scaling); as ReadText
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
  // As fields of a request to a server.
  Json ToRequest() const;

 private:
  uint32_t max_tokens_ = 256;
  llama::SamplerOptions sampler_;
};

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_ENGINE_FLAGS_H_
