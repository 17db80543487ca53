// What `verify`, `compact`, `build` and `quota` print, whether of a store or of a server that has
// it.
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
// The same where the limit is new: what is above it goes with the next import.
ExitCode ReportNewQuota(Environment* env, uint64_t quota_bytes, uint64_t file_bytes);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_UPKEEP_REPORT_H_
