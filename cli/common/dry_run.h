// Predicts the time and the room of an import. Stores nothing. Runs the text's beginning for about
// two seconds to measure the model.
//
// Errors:  the first errors of the import: kAlreadyExists (the name), kResourceExhausted (no room);
//          as DB.
// Threads: one thread at a time.
#ifndef ATTNDB_CLI_COMMON_DRY_RUN_H_
#define ATTNDB_CLI_COMMON_DRY_RUN_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "attndb/result.h"
#include "cli/common/import_target.h"
#include "cli/common/prefill_cost.h"
#include "cli/common/temp_dir.h"
#include "cli/environment.h"
#include "engines/llama/llama_engine.h"

namespace attndb::cli {

// Opens the store read-only. If no store exists, uses an empty one, which is deleted with this
// object.
class StoreToLookAt {
 public:
  static Result<StoreToLookAt> Open(Environment* env, const DBOptions& options);

  const DB& db() const { return *db_; }

 private:
  std::optional<TempDir> folder_;
  std::optional<DB> db_;
};

// `meter`: of the engine's model.
Result<ExitCode> DryRun(Environment* env, llama::LlamaEngine* engine,
                        std::span<const TokenId> tokens, const ImportTarget& target,
                        const RoomOptions& room, PrefillMeter* meter);

// The report of `name`, that would have `num_tokens`; `seconds` of its prefill, if they are known.
void PrintDryRun(Environment* env, const std::string& name, uint64_t num_tokens,
                 const RoomReport& report, std::optional<double> seconds);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_DRY_RUN_H_
