// The queries, indexes and presets of this version: the one place that knows the concrete indexes.
//
// Threads: pure function.
#ifndef ATTNDB_DB_BUILTIN_PLANS_H_
#define ATTNDB_DB_BUILTIN_PLANS_H_

#include "planner/plan_registry.h"

namespace attndb::internal {

planner::PlanRegistry BuiltinPlans();

}  // namespace attndb::internal

#endif  // ATTNDB_DB_BUILTIN_PLANS_H_
