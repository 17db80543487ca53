// Translates an index that a user names to the derived kind that is built for it.
//
// Errors:  kInvalidArgument, with the known names.
// Threads: stateless.
#ifndef ATTNDB_API_INDEX_USE_H_
#define ATTNDB_API_INDEX_USE_H_

#include <string>
#include <string_view>

#include "attndb/result.h"
#include "planner/plan_registry.h"

namespace attndb::internal {

// Returns the use (derived/kinds.h) of the object by which plans with this index find keys:
// "planes", "clustered", "graph", "quest", "infllm", "wave", "pq" or "pq,m=4,b=8". Or that of the
// ranking of static tokens, "static=prefill".
Result<std::string> IndexUse(std::string_view text, const planner::PlanRegistry& plans);

}  // namespace attndb::internal

#endif  // ATTNDB_API_INDEX_USE_H_
