// Heads of which each kv head serves fewer q heads: what a plan takes by the size of a group.
//
// Errors:  kInvalidArgument: more q heads than a group has; those of the source.
// Threads: one thread at a time.
#ifndef ATTNDB_BENCH_HEADS_SMALLER_GROUPS_H_
#define ATTNDB_BENCH_HEADS_SMALLER_GROUPS_H_

#include <cstdint>
#include <memory>

#include "attndb/result.h"
#include "bench/heads/head_source.h"

namespace attndb::bench {

// The first `group_size` q heads of each kv head. REQUIRES: group_size >= 1.
Result<std::unique_ptr<HeadSource>> SmallerGroups(std::unique_ptr<HeadSource> source,
                                                  uint32_t group_size);

}  // namespace attndb::bench

#endif  // ATTNDB_BENCH_HEADS_SMALLER_GROUPS_H_
