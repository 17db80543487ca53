// Translates an index that a user names to the derived kind that it is built as.
//
// Errors:  kInvalidArgument, with what is known.
// Threads: stateless.
#ifndef ATTNDB_API_INDEX_USE_H_
#define ATTNDB_API_INDEX_USE_H_

#include <string>
#include <string_view>

#include "attndb/result.h"
#include "planner/plan_registry.h"

namespace attndb::internal {

// The use (derived/kinds.h) of the object by which plans with this index find keys: "planes",
// "clustered", "graph", "quest", "infllm", "wave", "pq" or "pq,m=4,b=8"; or of the ranking that
// tells static tokens, "static=prefill".
Result<std::string> IndexUse(std::string_view text, const planner::PlanRegistry& plans);

}  // namespace attndb::internal

#endif  // ATTNDB_API_INDEX_USE_H_
