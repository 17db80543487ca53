// How fast a model has read texts on this machine lately, kept between runs in the user's cache.
//
// Errors:  none: what is not known is not predicted.
// Threads: stateless.
#ifndef ATTNDB_CLI_COMMON_PREFILL_SPEED_H_
#define ATTNDB_CLI_COMMON_PREFILL_SPEED_H_

#include <cstdint>
#include <optional>

#include "engines/llama/llama_engine.h"

namespace attndb::cli {

// Tokens a second of the engine's model on so many threads, by its last long import.
std::optional<double> KnownPrefillSpeed(const llama::LlamaEngine& engine);
// Keeps what a run of so many tokens took; one of few says nothing.
void KeepPrefillSpeed(const llama::LlamaEngine& engine, uint64_t num_tokens, double seconds);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_PREFILL_SPEED_H_
