// The queries, indexes and presets of this version: their names, keys and costs. Their searches are
// in attention/registry.h.
//
// Threads: pure function.
#ifndef ATTNDB_PLANNER_BUILTIN_PLANS_H_
#define ATTNDB_PLANNER_BUILTIN_PLANS_H_

#include "planner/plan_registry.h"

namespace attndb::planner {

PlanRegistry BuiltinPlans();

}  // namespace attndb::planner

#endif  // ATTNDB_PLANNER_BUILTIN_PLANS_H_
