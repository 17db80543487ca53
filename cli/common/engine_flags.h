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
  const std::string& model() const { return model_; }

  // Loads the model. `kv_dtype` is what its contexts hold. Errors: as LlamaEngine::Open;
  // kInvalidArgument (--rope-scaling).
  Result<llama::LlamaEngine> Open(Environment* env, DType kv_dtype) const;
  // Loads the model for what is asked of a stored context: with its type of K and V, and with the
  // RoPE scaling that it was imported with. Errors: as Open; kInvalidArgument (--rope-scaling says
  // another one).
  Result<llama::LlamaEngine> OpenFor(Environment* env, const ContextInfo& context) const;

 private:
  Result<llama::LlamaEngine> Open(Environment* env, const llama::EngineOptions& options) const;

  std::string model_;
  std::string rope_scaling_ = "model";
  uint32_t num_threads_ = 0;
};

class SamplerFlags {
 public:
  void AddTo(Flags* flags);
  bool greedy() const { return sampler_.temperature == 0; }

  llama::GenerateOptions ToOptions() const;

 private:
  uint32_t max_tokens_ = 256;
  llama::SamplerOptions sampler_;
};

// Adds to `status`, a failed CreateSession on a named context, the advice that fits.
Status WithModelAdvice(Environment* env, Status status);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_ENGINE_FLAGS_H_
