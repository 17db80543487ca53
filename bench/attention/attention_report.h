// The result of an attention benchmark for people and for programs.
//
// Threads: stateless.
#ifndef ATTNDB_BENCH_ATTENTION_ATTENTION_REPORT_H_
#define ATTNDB_BENCH_ATTENTION_ATTENTION_REPORT_H_

#include <nlohmann/json.hpp>
#include <string>

#include "bench/attention/attention_bench.h"
#include "bench/heads/head_source.h"

namespace attndb::bench {

nlohmann::ordered_json BenchJson(const HeadInfo& info, const AttentionBenchOptions& options,
                                 const AttentionBenchResult& result);
std::string BenchText(const HeadInfo& info, const AttentionBenchOptions& options,
                      const AttentionBenchResult& result);

}  // namespace attndb::bench

#endif  // ATTNDB_BENCH_ATTENTION_ATTENTION_REPORT_H_
