// Makes the plan that a layer runs from the plan that was asked for: where a rule set decides, its
// decision; where a budget differs by layer, this layer's share.
//
//   SettledPlan settled = Settle(asked, {layer, num_layers, &chain}, registry);
//   settled.plan.ToString();  // "dipr(alpha=0.012,index=graph,...)" of "auto(rules=alaya)"
//
// Rules:   `auto(rules=alaya)`: AlayaDB's optimizer, in the order of its Fig. 8. A short context is
//          read whole. Memory that holds all keys and values lets blocks be searched as InfLLM
//          does: that of the host which the store may take, unless the plan gives another. Else
//          DIPR: over all keys in layer 0, by Algorithm 1 over RoarGraph in the others. A context
//          that is reused in part is filtered to its reused tokens in any of these. Windows, k and
//          alpha are those of the paper's experiments (Table 5).
// Budgets: `topk(k=...,budget=pyramid)`: layer l of L selects (2 - 1/20) - l / (L - 1) * (2 - 2/20)
//          times k or ratio: 1.95 times in the first layer, 0.05 in the last, once in the mean.
// Threads: pure functions; nothing is allocated.
// Source:  AlayaDB (arXiv:2504.10326) 6.2; PyramidKV (arXiv:2406.02069) as RetrievalAttention's
//          App. F takes it, with the default of PyramidKV's code, beta = 20.
#ifndef ATTNDB_PLANNER_SETTLE_H_
#define ATTNDB_PLANNER_SETTLE_H_

#include <cstdint>
#include <string_view>

#include "attndb/types.h"
#include "planner/facts.h"
#include "planner/plan.h"

namespace attndb::planner {

// A layer, and the chain that its context is.
struct LayerPlace {
  LayerId layer = 0;
  uint32_t num_layers = 1;
  const ChainFacts* chain = nullptr;  // Its runs are not looked at.
};

struct SettledPlan {
  LayerPlan plan;  // Has no QueryKind::kRules, and no other layer's budget.
  // The rule of a rule set that made the plan; empty: none did. Static text.
  std::string_view rule;
};

SettledPlan Settle(const LayerPlan& asked, const LayerPlace& place, const PlanRegistry& registry);

// This layer's budget over the mean of all layers.
double PyramidShare(LayerId layer, uint32_t num_layers);

}  // namespace attndb::planner

#endif  // ATTNDB_PLANNER_SETTLE_H_
