// Translates a TPOT objective, `auto(tpot=...)`, to an error. It is the smallest of a ladder of
// errors whose predicted attention time over all layers meets the objective.
//
// Threads: one at a time.
#ifndef ATTNDB_PLANNER_OBJECTIVE_H_
#define ATTNDB_PLANNER_OBJECTIVE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "attndb/types.h"
#include "planner/learned_state.h"
#include "planner/machine_constants.h"
#include "planner/plan.h"
#include "planner/plan_layer.h"

namespace attndb::planner {

// The error for an objective.
struct ErrorChoice {
  double error = 0;
  double predicted_us = 0;  // Attention of all layers, for one row of q.
  bool reachable = true;    // False: even the largest error takes longer.
};

// The input of a prediction for all layers. All pointers must outlive it.
struct Outlook {
  const ModelSpec* spec = nullptr;
  const Plan* plan = nullptr;
  const LearnedState* learned = nullptr;
  const MachineConstants* machine = nullptr;
  LayerQuestion question;  // For one row; layer, spec and plan are filled in for each layer.
};

// Predicted microseconds of attention in all layers for one row, with `error` in place of
// objectives.
double PredictMicros(const Outlook& outlook, double error);

// The error for the plan's objective; nothing for a plan without an objective.
std::optional<ErrorChoice> ErrorOf(const LayerPlan& plan, const Outlook& outlook);

// Remembers the error of an objective, for some calls or until the context has grown.
class Objectives {
 public:
  // The layer's plan, with its objective replaced by an error.
  LayerPlan Settle(LayerId layer, const Outlook& outlook);
  void Forget() { settled_.clear(); }

 private:
  struct Settled {
    double tpot_ms = 0;
    uint64_t num_tokens = 0;
    uint32_t calls_left = 0;
    double error = 0;
  };
  std::vector<Settled> settled_;
};

}  // namespace attndb::planner

#endif  // ATTNDB_PLANNER_OBJECTIVE_H_
