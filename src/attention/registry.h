// What the queries of plans stand for, by name: the one place that makes concrete searches.
//
//   Registry registry;                                  // what this version has
//   registry.AddSearch("toy", {.make_search = ...});    // one more
//   const auto search = registry.MakeSearch(plan, layer);
//
// A query's name, keys and price are in planner/plan_registry.h; what it does is here.
//
// Threads: constant after the last Add; then shared by any number of threads.
#ifndef ATTNDB_ATTENTION_REGISTRY_H_
#define ATTNDB_ATTENTION_REGISTRY_H_

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "attndb/types.h"
#include "index/critical_search.h"
#include "index/key_index.h"
#include "planner/plan.h"

namespace attndb::attention {

// How a query that searches is answered.
struct QuerySearch {
  // By a search over the scores of all keys.
  std::function<std::unique_ptr<const index::CriticalSearch>(const planner::LayerPlan& plan,
                                                             const LayerSpec& layer)>
      make_search;
  // By an index that finds keys without scoring all of them: what it is asked for. Null where the
  // plan registry says that no index answers the query.
  std::function<index::SearchSpec(const planner::LayerPlan& plan, const LayerSpec& layer)>
      make_spec;
};

class Registry {
 public:
  Registry();

  // REQUIRES: the query has none yet.
  void AddSearch(std::string query, QuerySearch search);

  // Null for plans that choose no tokens, draw them, or find them by an index. The layer says how
  // scores become logits.
  std::unique_ptr<const index::CriticalSearch> MakeSearch(const planner::LayerPlan& plan,
                                                          const LayerSpec& layer) const;
  // What the plan's index is asked for. REQUIRES: plan.Finds().
  index::SearchSpec MakeSpec(const planner::LayerPlan& plan, const LayerSpec& layer) const;

 private:
  const QuerySearch& SearchOf(const planner::LayerPlan& plan) const;

  std::map<std::string, QuerySearch, std::less<>> searches_;  // By query.
};

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_REGISTRY_H_
