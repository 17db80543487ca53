// A real text that a model has read into a store, once: benchmarks that come later find it there.
//
// Errors:  of the engine and the store; kNotFound, kIoError for the text; kInvalidArgument where it
//          has fewer tokens than are asked for.
// Threads: one thread.
#ifndef ATTNDB_BENCH_E2E_STORED_TEXT_H_
#define ATTNDB_BENCH_E2E_STORED_TEXT_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "attndb/db.h"
#include "attndb/result.h"
#include "attndb/session.h"
#include "engines/llama/llama_engine.h"

namespace CLI {
class App;
}

namespace attndb::bench {

// What the programs of this folder have in common on their command lines.
struct TextOptions {
  std::string model = "smollm2";
  std::string text_path;
  std::string store_path;  // The store stays after the run, with the tokens that were read.
  std::string json_path;
  std::string commit;
  uint32_t num_threads = 2;
  float yarn_factor = 1;  // RoPE is stretched by YaRN; 1 = as the model file says.

  void AddTo(CLI::App* app);
  llama::EngineOptions Engine() const;
};

Result<std::string> ReadTextFile(const std::string& path);

// The first `count` of `tokens`. Errors: kInvalidArgument naming `text_path`.
Result<std::span<const TokenId>> FirstTokens(std::span<const TokenId> tokens, uint64_t count,
                                             const std::string& text_path);

// Runs those of `tokens` that the store does not have and stores them all, a piece at a time, so
// that what a stopped run did is not lost. A plan other than `full` holds where the store's
// dense_query_tokens let it.
Status EnsureStored(llama::LlamaEngine* engine, const DB& db, std::span<const TokenId> tokens,
                    const std::string& plan = "full");

// A session that holds `tokens`, all of them stored. It waits for what the plan reads. Errors:
// kUnsupported: an index, planes or means that the plan asks for can't be made.
Result<Session> SessionOn(const DB& db, const llama::LlamaEngine& engine,
                          std::span<const TokenId> tokens, const std::string& plan);

// Name, machine, model and options, to which a program adds its figures.
nlohmann::json ReportHead(const std::string& name, const TextOptions& options,
                          const llama::LlamaEngine& engine);

// Writes the file of --json, or says why not on stderr. Gives the exit code.
int Finish(const std::string& name, const Status& status, const nlohmann::json& report,
           const std::string& json_path);

}  // namespace attndb::bench

#endif  // ATTNDB_BENCH_E2E_STORED_TEXT_H_
