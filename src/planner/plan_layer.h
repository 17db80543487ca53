// Decides which physical plan answers `auto` in a layer, head by head: rules first, then cost.
//
//   LayerExecution = PlanLayer(facts of the chain, what was learned, prices of the machine)
//
// Rules:   as the beginning of AlayaDB 6.2, Fig. 8: a short context is read whole; a context that
//          is reused in part is searched with a filter. Then each head takes the cheapest method:
//          reading everything, a scan of all keys, or, for a long context, an index.
//          `auto(rules=alaya)` is all of Fig. 8, and prices nothing (settle.h).
// Ours:    observations correct the price of a head (learned_state.h). So heads that need many
//          tokens end up at `full`, also on machines that differ from their constants. Methods that
//          seemed slower are explored from time to time.
// Threads: pure functions: equal arguments give an equal execution. No disk, no clock.
// Source:  AlayaDB (arXiv:2504.10326) 6.2.
#ifndef ATTNDB_PLANNER_PLAN_LAYER_H_
#define ATTNDB_PLANNER_PLAN_LAYER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "attndb/dtype.h"
#include "attndb/types.h"
#include "planner/execution.h"
#include "planner/facts.h"
#include "planner/learned_state.h"
#include "planner/machine_constants.h"
#include "planner/plan.h"

namespace attndb::planner {

struct LayerQuestion {
  LayerId layer = 0;
  uint32_t num_layers = 1;
  const LayerSpec* spec = nullptr;
  DType kv_dtype = DType::kFloat16;
  const LayerPlan* plan = nullptr;         // The requested plan; its objective is an error.
  const PlanRegistry* registry = nullptr;  // The plan's registry.
  ChainFacts chain;
  uint64_t num_rows = 1;  // Rows of q.
  uint32_t num_threads = 1;
  uint32_t dense_query_tokens = 64;
  bool explores = true;  // Heads may run a method that seems slower, to learn its time.
};

// The rule by which all heads of a layer run `full` without pricing; empty if no rule applies.
// Static text. REQUIRES: the plan has no rule set.
std::string_view RuleFor(const LayerQuestion& question);

// Answers the question. Reuses the memory of `execution`.
void PlanLayer(const LayerQuestion& question, const LearnedState& learned,
               const MachineConstants& machine, LayerExecution* execution);

// Notes on a layer, for Explain.
std::string NotesOf(const LayerQuestion& question);

}  // namespace attndb::planner

#endif  // ATTNDB_PLANNER_PLAN_LAYER_H_
