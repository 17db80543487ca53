// The output of `verify`, `compact`, `build` and `quota`, for a store or for a server.
//
// Threads: one thread at a time.
#ifndef ATTNDB_CLI_COMMON_UPKEEP_REPORT_H_
#define ATTNDB_CLI_COMMON_UPKEEP_REPORT_H_

#include <cstdint>

#include "attndb/stats.h"
#include "cli/environment.h"

namespace attndb::cli {

// kDamage where there is some.
ExitCode ReportVerified(Environment* env, const VerifyReport& report, double seconds);

struct StoreSize {
  uint64_t num_contexts = 0;
  uint64_t num_segments = 0;
  uint64_t file_bytes = 0;
};
ExitCode ReportCompacted(Environment* env, const StoreSize& before, const StoreSize& after,
                         double seconds);

ExitCode ReportBuilt(Environment* env, const BuildReport& report);

// 0 = no limit.
ExitCode ReportQuota(Environment* env, uint64_t quota_bytes, uint64_t file_bytes);
// The same for a new limit: the next import evicts contexts above the limit.
ExitCode ReportNewQuota(Environment* env, uint64_t quota_bytes, uint64_t file_bytes);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_UPKEEP_REPORT_H_
