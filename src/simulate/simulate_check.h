// Checks the options of Simulate, and resolves them for the simulator.
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

// The named model, with the figures that the options replace.
Result<SimulatedModel> ResolveModel(const SimulateOptions& options);

Result<std::vector<tier::Policy>> ParsePolicies(const SimulateOptions& options);

}  // namespace attndb::internal

#endif  // ATTNDB_SIMULATE_SIMULATE_CHECK_H_
