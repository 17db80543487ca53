// One side of the comparison: a model that has read some text and can go on. Both sides have the
// same weights, threads, types and ids; they differ in who keeps the KV and computes attention.
//
// Threads: one thread.
// Errors:  of the engine.
#ifndef ATTNDB_BENCH_E2E_LLAMA_RUNS_H_
#define ATTNDB_BENCH_E2E_LLAMA_RUNS_H_

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "attndb/db.h"
#include "attndb/result.h"
#include "attndb/types.h"
#include "engines/llama/llama_engine.h"
#include "engines/llama/plain_context.h"

namespace attndb::bench {

class Runner {
 public:
  virtual ~Runner() = default;

  // Forgets everything, then reads `tokens`: a cold prefill. Gives milliseconds.
  virtual Result<double> Prefill(std::span<const TokenId> tokens) = 0;
  // Decodes `tokens` one by one, then forgets them again. Adds milliseconds a token to `samples`.
  virtual Status Decode(std::span<const TokenId> tokens, std::vector<double>* samples) = 0;
};

// Plain llama.cpp with flash attention and float16 KV, with room for `num_tokens`.
Result<std::unique_ptr<Runner>> PlainRunner(const llama::LlamaEngine& engine, uint32_t num_tokens);

// The engine on a session; what Prefill read is stored, so that Decode works on a stored context.
Result<std::unique_ptr<Runner>> AttndbRunner(llama::LlamaEngine* engine, const DB& db,
                                             const std::string& plan);

}  // namespace attndb::bench

#endif  // ATTNDB_BENCH_E2E_LLAMA_RUNS_H_
