// Functions that make the commands of attndb-bench.
#ifndef ATTNDB_BENCH_COMMANDS_H_
#define ATTNDB_BENCH_COMMANDS_H_

#include <memory>

#include "cli/command.h"

namespace attndb::bench {

std::unique_ptr<cli::Command> MakeAttentionBench();
std::unique_ptr<cli::Command> MakeIndexBench();

}  // namespace attndb::bench

#endif  // ATTNDB_BENCH_COMMANDS_H_
