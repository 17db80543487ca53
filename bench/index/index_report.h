// The result of a benchmark of indexes: as JSON, and as one table for each head.
//
// Threads: pure functions.
#ifndef ATTNDB_BENCH_INDEX_INDEX_REPORT_H_
#define ATTNDB_BENCH_INDEX_INDEX_REPORT_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/heads/head_source.h"
#include "bench/index/index_bench.h"

namespace attndb::bench {

nlohmann::ordered_json IndexBenchJson(const HeadInfo& info, const IndexBenchOptions& options,
                                      const std::vector<IndexHeadResult>& heads);

std::string IndexBenchText(const HeadInfo& info, const IndexBenchOptions& options,
                           const std::vector<IndexHeadResult>& heads);

}  // namespace attndb::bench

#endif  // ATTNDB_BENCH_INDEX_INDEX_REPORT_H_
