// What a layer's call does, head by head and run by run: all that is decided before a row is read.
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

// How a kv head finds its tokens.
enum class Method : uint8_t {
  kFull,   // It reads all of them.
  kScan,   // It scores all keys, from planes where there are some.
  kIndex,  // It asks an index, which does not score every key.
};
inline constexpr size_t kNumMethods = 3;

// How the keys of one run are reached.
enum class Access : uint8_t { kExact, kPlanes, kIndex };

// What decided.
enum class Reason : uint8_t {
  kAsAsked,       // The plan says it, or leaves no choice.
  kRule,          // RuleFor.
  kNonFinite,     // K or V has NaN or Inf.
  kFullCheaper,   // Cost.
  kScanCheaper,   // Cost.
  kIndexCheaper,  // Cost: what an index leaves out needs no scan.
  kExplores,      // What seemed slower is measured.
};

// What decided, in words; empty where nothing was to decide. Static text.
std::string_view TextOf(Reason reason);

// One kv head.
struct HeadExecution {
  Method method = Method::kFull;
  Method preferred = Method::kFull;  // The same, but for a head that explores.
  Reason reason = Reason::kAsAsked;
  const IndexType* index = nullptr;  // By which it finds or draws tokens, unless it is full.
  double selected = 0;               // Critical tokens expected per q head; negative = unknown.
  double rows_expected = 0;          // Selected and sampled rows per q head, of any head,
  double rows = 0;                   // ... and of this one.
  double aimed_error = 0;            // Of a plan that draws, with its budget.
  DrawBudget budget;                 // Of a plan that draws.
  // By method, per row of q: without the correction for time, and with it.
  std::array<Cost, kNumMethods> cost;
  std::array<double, kNumMethods> ns{};

  const Cost& cost_of(Method of) const { return cost[static_cast<size_t>(of)]; }
  double ns_of(Method of) const { return ns[static_cast<size_t>(of)]; }
  // Of reading all if it does not, and of what it would do else if it does.
  double other_ns() const {
    if (method != Method::kFull) return ns_of(Method::kFull);
    const double scan_ns = ns_of(Method::kScan);
    return scan_ns > 0 ? scan_ns : ns_of(Method::kIndex);
  }
  // What is to be read, and how long one thread takes.
  Cost predicted() const { return {cost_of(method).bytes, ns_of(method)}; }
};

struct LayerExecution {
  // As asked, with rules, index and error settled: `index` is the one that any head takes.
  LayerPlan plan;
  std::string_view rule;             // Of a rule set, that made the plan; or empty. Static text.
  bool priced = false;               // No rule, and nothing that was asked, settled it.
  bool offers_index = false;         // Heads may scan or take an index.
  bool all_full = true;              // Every head runs `full`,
  std::string_view full_reason;      // ... for this reason, unless it was asked for. Static text.
  std::vector<HeadExecution> heads;  // By kv head.
  std::vector<Access> access;        // [kv head][run of the chain]

  Access AccessOf(uint32_t kv_head, size_t run) const {
    return access[kv_head * (access.size() / heads.size()) + run];
  }
  // What decided for the head, in words; empty if the plan was asked for. Static text.
  std::string_view ReasonOf(uint32_t kv_head) const;
  // `plan`, with the head's own index.
  LayerPlan PlanOf(uint32_t kv_head) const;
};

}  // namespace attndb::planner

#endif  // ATTNDB_PLANNER_EXECUTION_H_
