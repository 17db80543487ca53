// Makes the plan that a layer runs from the session's plan. A rule set is replaced by its decision,
// and a budget that differs by layer by this layer's share.
//
//   SettledPlan settled = Settle(asked, {layer, num_layers, &chain}, registry);
//   settled.plan.ToString();  // "dipr(alpha=0.012,index=graph,...)" of "auto(rules=alaya)"
//
// Rules:   `auto(rules=alaya)` is AlayaDB's optimizer, in the order of its Fig. 8. A short context
//          is read whole. If memory holds all keys and values, blocks are searched as in InfLLM;
//          the memory is the host memory that the store may take, unless the plan names a size.
//          Else DIPR: over all keys in layer 0, by Algorithm 1 over RoarGraph in the others. A
//          context that is reused in part is filtered to its reused tokens in each case. Windows, k
//          and alpha are those of the paper's experiments (Table 5).
// Budgets: `topk(k=...,budget=pyramid)`: layer l of L selects (2 - 1/20) - l / (L - 1) * (2 - 2/20)
//          times k or ratio: 1.95 times in the first layer, 0.05 in the last, once on average.
// Threads: pure functions; nothing is allocated.
// Source:  AlayaDB (arXiv:2504.10326) 6.2; PyramidKV (arXiv:2406.02069) as used in
//          RetrievalAttention's App. F, with the default of PyramidKV's code, beta = 20.
#ifndef ATTNDB_PLANNER_SETTLE_H_
#define ATTNDB_PLANNER_SETTLE_H_

#include <cstdint>
#include <string_view>

#include "attndb/types.h"
#include "planner/facts.h"
#include "planner/plan.h"

namespace attndb::planner {

// A layer and its chain.
struct LayerPlace {
  LayerId layer = 0;
  uint32_t num_layers = 1;
  const ChainFacts* chain = nullptr;  // Its runs are not used.
};

struct SettledPlan {
  LayerPlan plan;  // Has no QueryKind::kRules, and no other layer's budget.
  // The rule of the rule set that made the plan; empty: there is none. Static text.
  std::string_view rule;
};

SettledPlan Settle(const LayerPlan& asked, const LayerPlace& place, const PlanRegistry& registry);

// This layer's budget divided by the mean of all layers.
double PyramidShare(LayerId layer, uint32_t num_layers);

}  // namespace attndb::planner

#endif  // ATTNDB_PLANNER_SETTLE_H_
