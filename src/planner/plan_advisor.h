// A session's optimizer: chooses for each call, and learns from what calls cost.
//
//   const LayerChoice& choice = advisor.Choose(layer, chain, num_rows);   // before a call
//   ... run it ...
//   advisor.Observe(layer, observations);                                 // after it
//
// Learning: every call of one row corrects its heads' predictions. A head that runs `full` is tried
//           again after a few calls, four times as many each time up to kRetryCalls, or more if a
//           search looks much worse. An index is tried in the same way by heads that scan.
//           Where a search is not clearly better, one head now and then runs `full`, to learn what
//           that takes here.
// Threads:  one at a time.
#ifndef ATTNDB_PLANNER_PLAN_ADVISOR_H_
#define ATTNDB_PLANNER_PLAN_ADVISOR_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "attndb/types.h"
#include "planner/draw_control.h"
#include "planner/optimizer.h"

namespace attndb::planner {

// What a layer runs.
struct LayerChoice {
  LayerPlan
      plan;  // As asked, with index and error settled. Where a head is not `full`, it runs it.
  double aimed_error = 0;         // Of a plan that draws,
  std::vector<DrawBudget> draws;  // ... by kv head.
  bool priced = false;            // No rule, and nothing that was asked, settled it.
  bool all_full = true;           // Every head runs `full`,
  std::string_view full_reason;   // ... for this reason, unless it was asked for. Static text.
  std::vector<HeadChoice> heads;  // By kv head.

  // Where heads may scan or draw by an index: what each would do by the other one. Else empty.
  // `plan` has the index by which any head draws.
  std::vector<HeadChoice> others;
  // `plan`, with the head's own index.
  LayerPlan PlanOf(uint32_t kv_head) const;
};

// How a TPOT objective was met.
struct ErrorChoice {
  double error = 0;
  double predicted_us = 0;  // Attention of all layers, for one row of q.
  bool reachable = true;    // False: even the largest error takes longer.
};

class PlanAdvisor {
 public:
  struct Options {
    uint32_t dense_query_tokens = 64;
    bool learns = true;  // False: the same choice for the same sizes, on every run.
    // The machine's constants; `needed`: `auto` depends on them, so they are worth measuring.
    // They must stay where they are.
    std::function<const MachineConstants&(bool needed)> machine;
    const PlanRegistry* registry = nullptr;  // Must outlive the advisor.
  };
  static constexpr uint32_t kRetryCalls = 256;

  // `spec`: defaults resolved; must outlive the advisor, as must the plan of SetPlan.
  PlanAdvisor(const ModelSpec* spec, Options options);

  // REQUIRES: called before the first Choose, and when the plan changes.
  void SetPlan(const Plan* plan);

  // Threads that share the calls to come.
  void SetThreads(uint32_t num_threads) { num_threads_ = num_threads; }

  // The result holds until the next call for the layer.
  const LayerChoice& Choose(LayerId layer, const ChainFacts& chain, uint64_t num_rows);
  // The same without a trial, and without a trace.
  LayerChoice Preview(LayerId layer, const ChainFacts& chain) const;

  // What the call of the last Choose cost, by kv head. Calls of several rows teach nothing, nor do
  // heads that took no time.
  void Observe(LayerId layer, uint64_t num_rows, std::span<const HeadObservation> heads);

  // Of a plan with a TPOT objective: the error that it stands for. Nothing without one.
  std::optional<ErrorChoice> ErrorOf(LayerId layer, const ChainFacts& chain) const;
  // Attention of all layers for one row, in microseconds.
  double PredictMicros(const ChainFacts& chain) const;
  std::string Notes(LayerId layer, const ChainFacts& chain) const;

  // By layer and kv head. What another session of the context learned may be put back.
  const std::vector<std::vector<HeadStatistics>>& statistics() const { return statistics_; }
  // Ignored unless it is of as many layers and heads.
  void Restore(const std::vector<std::vector<HeadStatistics>>& statistics);
  bool has_learned() const { return num_observed_ >= kMinObserved; }

 private:
  static constexpr uint64_t kMinObserved = 16;  // Calls before statistics are worth keeping.
  // An objective's error, and for how long it stands.
  struct Settled {
    double tpot_ms = 0;
    uint64_t num_tokens = 0;
    uint32_t calls_left = 0;
    ErrorChoice choice;
  };

  LayerQuestion Ask(LayerId layer, const LayerPlan& plan, const ChainFacts& chain) const;
  // The head with what other heads taught, where it was not observed itself.
  HeadStatistics Informed(const HeadStatistics& head) const;
  void Decide(const LayerQuestion& question, LayerChoice* choice) const;
  void Try(LayerId layer, LayerChoice* choice);
  void TryIndex(LayerId layer, LayerChoice* choice);
  void Summarize(LayerChoice* choice) const;
  double PredictWith(double error, const ChainFacts& chain) const;
  ErrorChoice FindError(double tpot_ms, const ChainFacts& chain) const;
  // The layer's plan with the error that its objective stands for.
  LayerPlan Settle(LayerId layer, const ChainFacts& chain);

  const ModelSpec* const spec_;
  const Options options_;
  const Plan* plan_ = nullptr;
  uint32_t num_threads_ = 1;
  std::vector<std::vector<HeadStatistics>> statistics_;
  std::vector<LayerChoice> choices_;
  std::vector<Settled> settled_;
  DrawControl draws_;
  MeanRatio sparse_time_;  // Of all heads.
  MeanRatio index_time_;
  MeanRatio full_time_;
  uint32_t calls_since_full_ = 0;
  uint64_t num_observed_ = 0;
};

}  // namespace attndb::planner

#endif  // ATTNDB_PLANNER_PLAN_ADVISOR_H_
