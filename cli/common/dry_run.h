// What an import would take, without a token run or a byte stored.
//
// Errors:  those that the import would begin with: kAlreadyExists (the name), kResourceExhausted
//          (no room); as DB.
// Threads: one thread at a time.
#ifndef ATTNDB_CLI_COMMON_DRY_RUN_H_
#define ATTNDB_CLI_COMMON_DRY_RUN_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "attndb/result.h"
#include "cli/common/import_target.h"
#include "cli/environment.h"
#include "engines/llama/llama_engine.h"

namespace attndb::cli {

// Looks at the store beside its writer; where there is none, at an empty one.
Result<ExitCode> DryRun(Environment* env, const llama::LlamaEngine& engine,
                        std::span<const TokenId> tokens, const ImportTarget& target,
                        const RoomOptions& room);

// The report of `name`, that would have `num_tokens`; `tokens_per_second` of the prefill, if known.
void PrintDryRun(Environment* env, const std::string& name, uint64_t num_tokens,
                 const RoomReport& report, std::optional<double> tokens_per_second);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_DRY_RUN_H_
