// A caller's own types of queries and indexes (attndb/custom_index.h), made known to what plans are
// parsed by, what runs them and what is derived for them.
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

// Whether the types can be added to what plans can name now.
// Errors: kInvalidArgument, with the type and what is wrong: a name that is no word or is taken,
//         keys whose range is none, no index, too many.
Status CheckCustomTypes(std::span<const CustomIndexType> types, const planner::PlanRegistry& plans);

// REQUIRES, of each: CheckCustomTypes is Ok.
void AddCustomPlans(std::span<const CustomIndexType> types, planner::PlanRegistry* plans);
void AddCustomSearches(std::span<const CustomIndexType> types, attention::Registry* operators);
void AddCustomKinds(std::span<const CustomIndexType> types, derived::Kinds* kinds);

}  // namespace attndb::internal

#endif  // ATTNDB_API_CUSTOM_TYPES_H_
