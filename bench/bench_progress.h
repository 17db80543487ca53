// How far a benchmark is, and how a user stops it.
//
// Threads: one thread at a time.
#ifndef ATTNDB_BENCH_BENCH_PROGRESS_H_
#define ATTNDB_BENCH_BENCH_PROGRESS_H_

#include <cstdint>
#include <functional>
#include <string>

#include "cli/environment.h"

namespace attndb::bench {

// Called with a phase, the part of it that is done and its total; false cancels.
using BenchProgress = std::function<bool(const std::string& phase, uint64_t done, uint64_t total)>;

// Shows one line on stderr for each phase, with its count in `unit_of(phase)`; Ctrl-C cancels.
BenchProgress ShowProgress(const cli::Environment& env,
                           std::function<std::string(const std::string&)> unit_of);

}  // namespace attndb::bench

#endif  // ATTNDB_BENCH_BENCH_PROGRESS_H_
