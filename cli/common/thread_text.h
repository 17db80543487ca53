// The text of `--explain` about the engine's threads.
//
// Threads: stateless.
#ifndef ATTNDB_CLI_COMMON_THREAD_TEXT_H_
#define ATTNDB_CLI_COMMON_THREAD_TEXT_H_

#include <string>

#include "cli/environment.h"
#include "engines/llama/llama_engine.h"

namespace attndb::cli {

// "threads: 1 of 2 now; the last change: 2 -> 1 after 6 steps, 30.1 ms -> 8.4 ms a step".
std::string ToText(const llama::ThreadReport& report);
Json ToJson(const llama::ThreadReport& report);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_THREAD_TEXT_H_
