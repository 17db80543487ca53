// What Simulate is asked for: checked, and resolved into what the simulator takes.
//
// Errors:  kInvalidArgument names the option, what was expected and what was found.
// Threads: pure functions.
#ifndef ATTNDB_SIMULATE_SIMULATE_CHECK_H_
#define ATTNDB_SIMULATE_SIMULATE_CHECK_H_

#include <vector>

#include "attndb/result.h"
#include "attndb/tiers.h"
#include "storage/tier/policy.h"

namespace attndb::internal {

Status CheckSimulateOptions(const SimulateOptions& options);

// The model that is named, with what else the options say of it.
Result<SimulatedModel> ResolveModel(const SimulateOptions& options);

Result<std::vector<tier::Policy>> ParsePolicies(const SimulateOptions& options);

}  // namespace attndb::internal

#endif  // ATTNDB_SIMULATE_SIMULATE_CHECK_H_
