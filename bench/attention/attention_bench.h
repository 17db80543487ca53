// How fast and how true is attention under a plan, token after token, as an engine decodes?
//
// Method:  all tokens but the last `num_rows` are stored in a temporary store, of all layers of the
//          source; q of up to 256 tokens before these is attended with, so that the store has its
//          sample of queries. Each plan has a session of its own on it. A step is one of the last
//          tokens: each plan in turn, and `full` among them, appends its K and V and attends, layer
//          by layer; the plans' order turns from step to step. Times are of the attends alone, all
//          layers together. One step of each plan is run before, untimed.
//          Ratios are taken within a step. The read bandwidth is measured before and after, over
//          four times the last-level cache; the larger counts.
// Error:   |out - out of full| / |out of full| of a q head, on the same stored values.
// Mass:    the share of the softmax that the tokens attended to have, exp(lse - lse of full). A
//          plan that estimates the remainder has it in its lse: it is asked again, untimed, with
//          remainder=drop. What `auto` chose can't be asked so: no figure. The two lse also say
//          what mass the plan thought that it left out; it is compared with what it did leave out,
//          for each query that leaves out 0.01 % or more.
// Bounds:  of a plan with exact_fallback, the hard bound of each query against what it did leave
//          out; what float32 rounds in the two lse counts for the bound.
// Ran:     what a plan reads of indexes and planes is built before, and waited for. A plan whose
//          index can't be built is refused: its figures would be those of a scan.
// Errors:  as DB and Session; kUnsupported for such a plan; kCancelled if `progress` says so.
// Threads: one call at a time.
// Units:   bytes as LayerExplain reports them touched; GB = 10^9 bytes.
#ifndef ATTNDB_BENCH_ATTENTION_ATTENTION_BENCH_H_
#define ATTNDB_BENCH_ATTENTION_ATTENTION_BENCH_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "attndb/result.h"
#include "attndb/stats.h"
#include "bench/bench_progress.h"
#include "bench/heads/head_source.h"
#include "bench/heads/mass_profile.h"

namespace attndb::bench {

struct AttentionBenchOptions {
  // Beside `full`. A plan that can't be honoured is an error, as is one whose index can't be built.
  std::vector<std::string> plans;
  // As `plans`, but one that can't be honoured is left out and listed.
  std::vector<std::string> optional_plans;
  uint32_t num_threads = 1;
  uint32_t num_rows = 16;  // Last tokens that are attended with; fewer if there are fewer queries.
  uint32_t repeat = 1;     // Times that each row is attended with.
  std::string temp_dir;    // Where the temporary store goes.
  uint64_t bandwidth_bytes = 0;  // Memory to read for the bandwidth; 0 = four times the cache.
  BenchProgress progress;        // Phases "store" and "attend"; may be null.
};

struct PlanResult {
  std::string plan;                     // Plan text as it was given.
  std::string canonical;                // Canonical plan text, with all its options.
  std::string ran;                      // Plan text of what ran: LayerExplain::ran.
  std::vector<Substitute> substitutes;  // What of the plan did not run: Explain::Substitutes.
  double error_mean = 0;                // Over steps, layers and q heads.
  double error_worst_head = 0;          // The q head with the largest mean over steps.
  std::optional<double> mass;           // Mean over steps, layers and q heads.
  uint64_t num_estimates = 0;           // Queries whose mass left out is estimated.
  uint64_t num_within_2 = 0;            // Estimates that are right within a factor of 2.
  uint64_t num_bounds = 0;              // Queries whose mass left out is bounded.
  uint64_t num_held = 0;                // Queries that left out no more than the bound.
  uint64_t num_out_held = 0;            // Queries whose output is off by no more than its bound.
  // Bounds over what they bound, of queries that left out 0.01 % or more: medians; 0 = none did.
  double bound_looseness = 0;
  double out_bound_looseness = 0;
  double selected_mean = 0;  // Critical tokens of a q head.
  double bytes_touched = 0;  // By one token in all layers, mean over steps.
  double ms_median = 0;      // Milliseconds of one token in all layers, a median.
  double ms_mad = 0;         // Median absolute deviation.
  double speedup = 0;        // Time of `full` over this: median over steps.
  // On the frontier of error and bytes, and of error and time; never where something else ran in
  // the place of the plan.
  bool best_by_bytes = false;
  bool best_by_time = false;
};

// An optional plan that was not measured.
struct LeftOut {
  std::string plan;
  std::string because;
};

struct AttentionBenchResult {
  MassProfile profile;
  uint64_t kv_bytes = 0;          // Bytes of stored K and V, of all layers.
  uint64_t last_cache_bytes = 0;  // 0 = unknown.
  double bandwidth = 0;           // Bytes per second that as many threads read.
  uint32_t num_steps = 0;
  std::vector<PlanResult> plans;  // `full` first.
  std::vector<LeftOut> left_out;
};

Result<AttentionBenchResult> RunAttentionBench(HeadSource* source,
                                               const AttentionBenchOptions& options);

}  // namespace attndb::bench

#endif  // ATTNDB_BENCH_ATTENTION_ATTENTION_BENCH_H_
