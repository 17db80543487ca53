// What a benchmark of indexes says: JSON, and a table a head.
//
// Threads: pure functions.
#ifndef ATTNDB_CLI_BENCH_INDEX_REPORT_H_
#define ATTNDB_CLI_BENCH_INDEX_REPORT_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/bench/head_source.h"
#include "cli/bench/index_bench.h"

namespace attndb::cli {

nlohmann::ordered_json IndexBenchJson(const HeadInfo& info, const IndexBenchOptions& options,
                                      const std::vector<IndexHeadResult>& heads);

std::string IndexBenchText(const HeadInfo& info, const IndexBenchOptions& options,
                           const std::vector<IndexHeadResult>& heads);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_BENCH_INDEX_REPORT_H_
