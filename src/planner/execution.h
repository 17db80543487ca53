// The execution of a layer's call, head by head and run by run: all decisions before a row is read.
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

// The way in which a kv head finds the tokens that it attends to.
enum class Method : uint8_t {
  kFull,   // It reads all of them.
  kScan,   // It scores all keys, from planes where there are some.
  kIndex,  // It asks an index, which does not score every key.
};
inline constexpr size_t kNumMethods = 3;

// The reason for a head's method.
enum class Reason : uint8_t {
  kAsAsked,       // The plan asks for it, or leaves no choice.
  kRule,          // RuleFor says so.
  kNonFinite,     // K or V has NaN or Inf.
  kFullCheaper,   // By cost.
  kScanCheaper,   // By cost.
  kIndexCheaper,  // By cost; the index needs no scan of other tokens.
  kExplores,      // A method that seemed slower is measured.
};

// The reason in words; empty if there was no choice. Static text.
std::string_view TextOf(Reason reason);

// The execution of one kv head.
struct HeadExecution {
  Method method = Method::kFull;
  // Like `method`; for a head that explores, the method that it would run otherwise.
  Method preferred = Method::kFull;
  Reason reason = Reason::kAsAsked;
  // The index by which it finds or draws tokens; null for `full`.
  const IndexType* index = nullptr;
  double selected = 0;  // Critical tokens expected per q head; negative = unknown.
  // Expected rows per q head, selected and sampled, for an average head.
  double rows_expected = 0;
  double rows = 0;         // The same, corrected by this head's statistics.
  double aimed_error = 0;  // The error that the budget of a drawing plan aims at.
  DrawBudget budget;       // Only for a plan that draws.
  // By method, per row of q: the model's prediction, and nanoseconds corrected by observations.
  std::array<Cost, kNumMethods> cost;
  std::array<double, kNumMethods> ns{};

  const Cost& cost_of(Method of) const { return cost[static_cast<size_t>(of)]; }
  double ns_of(Method of) const { return ns[static_cast<size_t>(of)]; }
  // Nanoseconds of the alternative: of `full` if the head selects, else of the possible selection.
  double other_ns() const {
    if (method != Method::kFull) return ns_of(Method::kFull);
    const double scan_ns = ns_of(Method::kScan);
    return scan_ns > 0 ? scan_ns : ns_of(Method::kIndex);
  }
  // Predicted bytes read, and nanoseconds of one thread.
  Cost predicted() const { return {cost_of(method).bytes, ns_of(method)}; }
};

struct LayerExecution {
  // The plan with rules, index and error settled; `index` is that of any head that uses one.
  LayerPlan plan;
  std::string_view rule;      // The rule of a rule set that made the plan; else empty. Static text.
  bool priced = false;        // Decided by cost: no rule and nothing in the plan settled it.
  bool offers_index = false;  // Heads may scan or take an index.
  bool all_full = true;       // Every head runs `full`.
  // The reason if all heads do, unless the plan asked for it. Static text.
  std::string_view full_reason;
  std::vector<HeadExecution> heads;  // By kv head.

  // The reason for the head's method, in words; empty if the plan asked for it. Static text.
  std::string_view ReasonOf(uint32_t kv_head) const;
  // `plan` with this head's own index.
  LayerPlan PlanOf(uint32_t kv_head) const;
};

}  // namespace attndb::planner

#endif  // ATTNDB_PLANNER_EXECUTION_H_
