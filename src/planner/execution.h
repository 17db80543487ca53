// What a layer's call does, head by head and run by run: everything that is decided before a row is
// read.
//
// Threads: values.
#ifndef ATTNDB_PLANNER_EXECUTION_H_
#define ATTNDB_PLANNER_EXECUTION_H_

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "planner/cost_model.h"
#include "planner/plan.h"

namespace attndb::planner {

// How a kv head finds the tokens that it attends to.
enum class Method : uint8_t {
  kFull,   // It reads all of them.
  kScan,   // It scores all keys, from planes where there are some.
  kIndex,  // It asks an index, which does not score every key.
};
inline constexpr size_t kNumMethods = 3;

// Why a head runs as it does.
enum class Reason : uint8_t {
  kAsAsked,       // The plan says it, or leaves no choice.
  kRule,          // RuleFor says so.
  kNonFinite,     // K or V has NaN or Inf.
  kFullCheaper,   // By cost.
  kScanCheaper,   // By cost.
  kIndexCheaper,  // By cost; what the index leaves out needs no scan.
  kExplores,      // A method that seemed slower is measured.
};

// The reason in words; empty where nothing was to decide. Static text.
std::string_view TextOf(Reason reason);

// How one kv head runs.
struct HeadExecution {
  Method method = Method::kFull;
  // As `method`, but for a head that explores: what it would run otherwise.
  Method preferred = Method::kFull;
  Reason reason = Reason::kAsAsked;
  // The index by which it finds or draws tokens; null for `full`.
  const IndexType* index = nullptr;
  double selected = 0;  // Critical tokens expected per q head; negative = unknown.
  // Expected rows per q head, selected and sampled, if heads were all alike.
  double rows_expected = 0;
  double rows = 0;         // The same, with what this head taught.
  double aimed_error = 0;  // Error that a plan that draws aims at with its budget.
  DrawBudget budget;       // Only for a plan that draws.
  // By method, per row of q: as the model predicts, and nanoseconds corrected by what was observed.
  std::array<Cost, kNumMethods> cost;
  std::array<double, kNumMethods> ns{};

  const Cost& cost_of(Method of) const { return cost[static_cast<size_t>(of)]; }
  double ns_of(Method of) const { return ns[static_cast<size_t>(of)]; }
  // Nanoseconds of the alternative: of `full` if the head selects, else of the selection it could
  // run.
  double other_ns() const {
    if (method != Method::kFull) return ns_of(Method::kFull);
    const double scan_ns = ns_of(Method::kScan);
    return scan_ns > 0 ? scan_ns : ns_of(Method::kIndex);
  }
  // Predicted bytes read, and nanoseconds of one thread.
  Cost predicted() const { return {cost_of(method).bytes, ns_of(method)}; }
};

struct LayerExecution {
  // The plan as asked for, with rules, index and error settled; `index` is one that any head takes.
  LayerPlan plan;
  std::string_view rule;      // The rule of a rule set that made the plan; else empty. Static text.
  bool priced = false;        // Decided by cost: no rule and nothing in the plan settled it.
  bool offers_index = false;  // Heads may scan or take an index.
  bool all_full = true;       // Every head runs `full`.
  std::string_view full_reason;      // Why all heads do, unless it was asked for. Static text.
  std::vector<HeadExecution> heads;  // By kv head.

  // Why the head runs as it does, in words; empty if the plan asked for it. Static text.
  std::string_view ReasonOf(uint32_t kv_head) const;
  // `plan` with this head's own index.
  LayerPlan PlanOf(uint32_t kv_head) const;
};

}  // namespace attndb::planner

#endif  // ATTNDB_PLANNER_EXECUTION_H_
