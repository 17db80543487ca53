// What an import would take, without a token run or a byte stored.
//
// Errors:  those that the import would begin with: kAlreadyExists (the name), kResourceExhausted
//          (no room); as DB.
// Threads: one thread at a time.
#ifndef ATTNDB_CLI_COMMON_DRY_RUN_H_
#define ATTNDB_CLI_COMMON_DRY_RUN_H_

#include <span>

#include "attndb/result.h"
#include "cli/common/import_target.h"
#include "cli/environment.h"
#include "engines/llama/llama_engine.h"

namespace attndb::cli {

// Looks at the store beside its writer; where there is none, at an empty one.
Result<ExitCode> DryRun(Environment* env, const llama::LlamaEngine& engine,
                        std::span<const TokenId> tokens, const ImportTarget& target,
                        const RoomOptions& room);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_DRY_RUN_H_
