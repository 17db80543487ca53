// The result of an attention benchmark for people and for programs.
//
// Threads: stateless.
#ifndef ATTNDB_CLI_BENCH_BENCH_REPORT_H_
#define ATTNDB_CLI_BENCH_BENCH_REPORT_H_

#include <string>

#include "cli/bench/attention_bench.h"
#include "cli/bench/head_source.h"
#include "cli/environment.h"

namespace attndb::cli {

Json BenchJson(const HeadInfo& info, const AttentionBenchOptions& options,
               const AttentionBenchResult& result);
std::string BenchText(const HeadInfo& info, const AttentionBenchOptions& options,
                      const AttentionBenchResult& result);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_BENCH_BENCH_REPORT_H_
