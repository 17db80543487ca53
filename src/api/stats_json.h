// JSON of the values that several parts of the API write: stats.h's, and cuts.
//
// Threads: stateless.
#ifndef ATTNDB_API_STATS_JSON_H_
#define ATTNDB_API_STATS_JSON_H_

#include <vector>

#include "attndb/stats.h"
#include "common/json_text.h"

namespace attndb::internal {

JsonText CutsJson(const std::vector<Cut>& cuts);
JsonText JsonOf(const SessionContext& context);
JsonText JsonOf(const Substitute& substitute);
JsonText JsonOf(const LayerExplain& layer);

}  // namespace attndb::internal

#endif  // ATTNDB_API_STATS_JSON_H_
