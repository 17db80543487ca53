// RoPE scalings: as a user writes them, and as the identity of a context holds them.
//
// Threads: stateless.
#ifndef ATTNDB_CLI_COMMON_ROPE_SCALING_H_
#define ATTNDB_CLI_COMMON_ROPE_SCALING_H_

#include <optional>
#include <string>
#include <string_view>

#include "attndb/result.h"
#include "engines/llama/llama_engine.h"

namespace attndb::cli {

// "linear:4", "yarn:2.5"; "model" for the model file's own. Errors: kInvalidArgument.
Result<llama::RopeScaling> ParseRopeScaling(std::string_view text);

// The text that ParseRopeScaling understands.
std::string RopeScalingText(const llama::RopeScaling& scaling);

// The scaling by which llama.cpp makes the keys of `identity`, a Rope::scaling in the adapter's
// form. Empty: none, or one without a flag (of another engine, or only in the model file).
std::optional<llama::RopeScaling> RopeScalingOf(std::string_view identity);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_ROPE_SCALING_H_
