// Heads of which each kv head serves fewer q heads: what a plan takes by the size of a group.
//
// Errors:  kInvalidArgument: more q heads than a group has; those of the source.
// Threads: one thread at a time.
#ifndef ATTNDB_CLI_BENCH_SMALLER_GROUPS_H_
#define ATTNDB_CLI_BENCH_SMALLER_GROUPS_H_

#include <cstdint>
#include <memory>

#include "attndb/result.h"
#include "cli/bench/head_source.h"

namespace attndb::cli {

// The first `group_size` q heads of each kv head. REQUIRES: group_size >= 1.
Result<std::unique_ptr<HeadSource>> SmallerGroups(std::unique_ptr<HeadSource> source,
                                                  uint32_t group_size);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_BENCH_SMALLER_GROUPS_H_
