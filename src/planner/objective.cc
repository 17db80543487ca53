#include "planner/objective.h"

#include <algorithm>

namespace attndb::planner {
namespace {

// Errors that an objective is tried with, smallest first.
constexpr double kErrorLadder[] = {0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5};

// The error is computed again after this many calls of a layer, or this much growth.
constexpr uint32_t kSettledCalls = 32;
constexpr uint64_t kSettledGrowth = 32;  // One part in it.

bool IsObjective(const LayerPlan& plan) { return plan.kind == QueryKind::kAuto && plan.error == 0; }

}  // namespace

double PredictMicros(const Outlook& outlook, double error) {
  double micros = 0;
  LayerExecution execution;
  LayerQuestion question = outlook.question;
  for (LayerId layer = 0; layer < outlook.spec->num_layers(); ++layer) {
    LayerPlan plan = outlook.plan->ForLayer(layer);
    if (IsObjective(plan)) plan.error = error;
    question.layer = layer;
    question.num_layers = outlook.spec->num_layers();
    question.spec = &outlook.spec->layers[layer];
    question.plan = &plan;
    PlanLayer(question, *outlook.learned, *outlook.machine, &execution);
    Cost sum;
    for (const HeadExecution& head : execution.heads) {
      sum.bytes += head.predicted().bytes;
      sum.ns += head.predicted().ns;
    }
    micros += WallMicros(sum, question.num_threads, *outlook.machine);
  }
  return micros;
}

std::optional<ErrorChoice> ErrorOf(const LayerPlan& plan, const Outlook& outlook) {
  if (!IsObjective(plan)) return std::nullopt;
  ErrorChoice choice;
  for (const double error : kErrorLadder) {
    choice.error = error;
    choice.predicted_us = PredictMicros(outlook, error);
    choice.reachable = choice.predicted_us <= plan.Get("tpot") * 1e3;
    if (choice.reachable) break;
  }
  return choice;
}

LayerPlan Objectives::Settle(LayerId layer, const Outlook& outlook) {
  LayerPlan plan = outlook.plan->ForLayer(layer);
  if (!IsObjective(plan)) return plan;
  const double tpot_ms = plan.Get("tpot");
  auto found = std::ranges::find(settled_, tpot_ms, &Settled::tpot_ms);
  if (found == settled_.end()) found = settled_.insert(found, {.tpot_ms = tpot_ms});
  const uint64_t num_tokens = outlook.question.chain.num_tokens;
  const auto [least, most] = std::minmax(num_tokens, found->num_tokens);
  if (found->calls_left == 0 || (most - least) * kSettledGrowth > num_tokens) {
    found->error = ErrorOf(plan, outlook)->error;
    found->num_tokens = num_tokens;
    found->calls_left = kSettledCalls * outlook.spec->num_layers();
  }
  --found->calls_left;
  plan.SetError(found->error);
  return plan;
}

}  // namespace attndb::planner
