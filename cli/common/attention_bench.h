// How fast and how true is one Attend under a plan? One layer in a store of its own, keys and
// values from files or synthetic, queries one at a time as if each were the newest token's.
//
// Method:  the vectors are stored in a temporary store, so that all but the newest token are the
//          plan's to select; each query is timed once per repeat after one untimed pass; the median
//          counts. Errors are against the plan `full` on the same stored values.
// Errors:  as DB and Session; kCancelled after a signal.
// Threads: one call at a time.
// Units:   bytes as LayerExplain reports them touched; GB = 10^9 bytes.
#ifndef ATTNDB_CLI_COMMON_ATTENTION_BENCH_H_
#define ATTNDB_CLI_COMMON_ATTENTION_BENCH_H_

#include <cstdint>
#include <optional>
#include <string>

#include "attndb/dtype.h"
#include "attndb/result.h"
#include "cli/common/npy.h"

namespace attndb::cli {

struct BenchOptions {
  uint64_t num_tokens = 32768;  // Synthetic only, as the three below.
  uint32_t head_dim = 128;
  uint32_t num_q_heads = 32;
  uint32_t num_kv_heads = 8;
  DType kv_dtype = DType::kFloat16;
  std::string plan = "full";
  uint32_t num_threads = 1;
  uint32_t repeat = 20;
  std::string temp_dir;  // Where the temporary store goes.
};

struct BenchVectors {
  NpyArray keys;     // [tokens, kv heads, head_dim]
  NpyArray values;   // [tokens, kv heads, v_head_dim]
  NpyArray queries;  // [rows, q heads, head_dim]
};

struct BenchResult {
  bool synthetic = false;
  uint64_t num_tokens = 0;
  uint32_t num_q_heads = 0;
  uint32_t num_kv_heads = 0;
  uint32_t head_dim = 0;
  std::string plan;  // Canonical.
  double ms_median = 0;
  double ms_mad = 0;           // Median absolute deviation.
  double full_ms_median = 0;   // Of the plan `full`, same queries.
  uint64_t bytes_touched = 0;  // By one Attend.
  double bytes_per_second = 0;
  double bandwidth = 0;      // Measured read bandwidth, as many threads, bytes per second.
  double selected_mean = 0;  // Critical tokens per row and q head.
  double error_mean = 0;     // |out - full| / |full|, mean over queries and q heads.
  double error_max = 0;
  uint32_t num_runs = 0;
};

// Errors: kInvalidArgument where the arrays do not fit together.
Status CheckVectors(const BenchVectors& vectors);

Result<BenchResult> RunAttentionBench(const BenchOptions& options,
                                      const std::optional<BenchVectors>& vectors);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_ATTENTION_BENCH_H_
