// Builds the search that a plan names: the one place that knows the concrete indexes.
//
// Threads: pure function.
#ifndef ATTNDB_DB_SEARCH_FACTORY_H_
#define ATTNDB_DB_SEARCH_FACTORY_H_

#include <memory>

#include "attndb/types.h"
#include "index/critical_search.h"
#include "query/plan/plan.h"

namespace attndb::internal {

// Null for plans that choose no tokens (full, window). The layer says how scores become logits.
std::unique_ptr<const index::CriticalSearch> MakeSearch(const query::LayerPlan& plan,
                                                        const LayerSpec& layer);

}  // namespace attndb::internal

#endif  // ATTNDB_DB_SEARCH_FACTORY_H_
