// Adds a caller's own types of queries and indexes (attndb/custom_index.h) to the plans that can be
// parsed, to the operators, and to the kinds of derived objects.
//
// Threads: stateless.
#ifndef ATTNDB_API_CUSTOM_TYPES_H_
#define ATTNDB_API_CUSTOM_TYPES_H_

#include <span>

#include "attention/registry.h"
#include "attndb/custom_index.h"
#include "attndb/status.h"
#include "derived/kinds.h"
#include "planner/plan_registry.h"

namespace attndb::internal {

// Checks that the types can be added to `plans`.
// Errors: kInvalidArgument naming the type and its fault: an invalid or taken name, an argument
//         with an empty range, no index, too many types.
Status CheckCustomTypes(std::span<const CustomIndexType> types, const planner::PlanRegistry& plans);

// REQUIRES, here and below: CheckCustomTypes is Ok for the types.
void AddCustomPlans(std::span<const CustomIndexType> types, planner::PlanRegistry* plans);
void AddCustomSearches(std::span<const CustomIndexType> types, attention::Registry* operators);
void AddCustomKinds(std::span<const CustomIndexType> types, derived::Kinds* kinds);

}  // namespace attndb::internal

#endif  // ATTNDB_API_CUSTOM_TYPES_H_
