// Maps plans to code: the operator that runs a call, and the search that a query names. Only the
// registry knows concrete operators and searches, and distinguishes kinds of queries.
//
//   Registry registry;                                  // The operators of this version.
//   registry.AddSearch("toy", {.make_search = ...});    // One more.
//   CallRunner runner(registry.MakeOperators(), &pool);
//   call.search = registry.MakeSearch(plan, layer).get();
//   registry.Choose(call, &choice);
//   runner.Begin(call, choice);
//
// planner/plan_registry.h has the name, keys and price of a query; the registry has its search.
//
// Threads: constant after the last Add; then shared by any number of threads.
#ifndef ATTNDB_ATTENTION_REGISTRY_H_
#define ATTNDB_ATTENTION_REGISTRY_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "attention/call_runner.h"
#include "attention/layer_call.h"
#include "attention/operator.h"
#include "attndb/types.h"
#include "index/critical_search.h"
#include "index/key_index.h"
#include "planner/plan.h"

namespace attndb::attention {

// How a query that searches is answered.
struct QuerySearch {
  // Makes a search over the scores of all keys.
  std::function<std::unique_ptr<const index::CriticalSearch>(const planner::LayerPlan& plan,
                                                             const LayerSpec& layer)>
      make_search;
  // For an index that finds keys without scoring all of them: its task in such a call. Null if the
  // plan registry says that no index answers the query.
  std::function<index::SearchSpec(const planner::LayerPlan& plan, const LayerSpec& layer,
                                  const planner::CallSize& size)>
      make_spec;
};

class Registry {
 public:
  Registry();

  // Registers how a query is answered. REQUIRES: the query has no search yet.
  void AddSearch(std::string query, QuerySearch search);
  // Registers a query that attends to all that its index selects, and to the index's estimate of
  // the rest. REQUIRES: as AddSearch.
  void AddSelection(std::string query);

  // The search of the plan's query; null for plans that choose no tokens, draw them, or find them
  // by an index. The layer tells how scores become logits.
  std::unique_ptr<const index::CriticalSearch> MakeSearch(const planner::LayerPlan& plan,
                                                          const LayerSpec& layer) const;
  // The task of the plan's index. REQUIRES: plan.Finds().
  index::SearchSpec MakeSpec(const planner::LayerPlan& plan, const LayerSpec& layer,
                             const planner::CallSize& size) const;

  // One of each operator, for a runner.
  std::vector<std::unique_ptr<Operator>> MakeOperators() const;
  // Chooses the operator of the call, and that of each head: heads with NaN or Inf attend to all
  // tokens.
  void Choose(const LayerCall& call, OperatorChoice* choice) const;

 private:
  const QuerySearch& SearchOf(const planner::LayerPlan& plan) const;

  std::map<std::string, QuerySearch, std::less<>> searches_;  // By the query's name.
};

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_REGISTRY_H_
