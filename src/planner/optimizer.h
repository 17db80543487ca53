// Which physical plan answers `auto` in a layer, head by head: rules first, then cost.
//
// Rules:   AlayaDB 6.2, Fig. 8, in its order: a short context is read whole; a context that is
//          reused in part is searched with a filter; a GPU with room for the keys and values would
//          search blocks there. Then a scan of all keys is priced against reading everything, and
//          where the context is long, draws by an index against a scan; a head takes what is
//          cheapest.
// Ours:    a head is priced by what was observed of it (HeadStatistics), so heads that need many
//          tokens, and machines that differ from their constants, end up at `full`; they are tried
//          again now and then.
// Threads: pure functions. No disk, no clock, no allocation but for texts.
// Source:  AlayaDB (arXiv:2504.10326) 6.2.
#ifndef ATTNDB_PLANNER_OPTIMIZER_H_
#define ATTNDB_PLANNER_OPTIMIZER_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "attndb/dtype.h"
#include "attndb/types.h"
#include "planner/cost_model.h"
#include "planner/head_statistics.h"
#include "planner/plan.h"

namespace attndb::planner {

// Up to so many tokens nothing is priced: reading them takes microseconds.
inline constexpr uint64_t kShortContextTokens = 1024;

// What a layer's call will find.
struct ChainFacts {
  uint64_t num_tokens = 0;        // Visible to the newest row.
  uint64_t num_stored = 0;        // Of these, in sealed segments; the rest is the session's tail.
  uint64_t num_plane_tokens = 0;  // Stored tokens whose keys have planes, or may have.
  uint64_t num_filtered = 0;      // Tokens of its segments behind the reused prefix.
  bool planes_missing = false;    // More could have planes, if there were memory or time for them.
  uint64_t kv_bytes = 0;          // K and V of all layers,
  uint64_t gpu_bytes = 0;         // ... and the memory of the GPU, if there is one.
};

struct LayerQuestion {
  LayerId layer = 0;
  const LayerSpec* spec = nullptr;
  DType kv_dtype = DType::kFloat16;
  const LayerPlan* plan = nullptr;         // What was asked for.
  const PlanRegistry* registry = nullptr;  // Indexes that `auto` may choose among.
  double aimed_error = 0;                  // Of a plan that draws.
  ChainFacts chain;
  uint64_t num_rows = 1;  // Rows of q.
  uint32_t num_threads = 1;
  uint32_t dense_query_tokens = 64;
};

// What decided.
enum class Reason : uint8_t {
  kAsAsked,        // The plan says it, or leaves no choice.
  kRule,           // RuleFor.
  kFullCheaper,    // Cost.
  kBroadHead,      // Cost: a head that needs a large share of all tokens.
  kSparseCheaper,  // Cost.
  kTriedAgain,     // A head that prefers `full`, measured again.
  kMeasuresFull,   // A head that would search, to learn what `full` takes on this machine.
  kIndexCheaper,   // Cost: what an index leaves out needs no scan.
  kIndexTried,     // A head that prefers to scan, measured by an index.
  kScanTried,      // A head that prefers an index, measured without.
};

// What decided, in words; empty where nothing was to decide. Static text.
std::string_view TextOf(Reason reason);

// One kv head.
struct HeadChoice {
  bool full = true;
  Reason reason = Reason::kAsAsked;
  const IndexType* index = nullptr;  // That it searches or draws by, unless it is full.
  double selected = 0;               // Critical tokens expected per q head; negative = unknown.
  double rows_expected = 0;          // Selected and sampled rows per q head, of any head,
  double rows = 0;                   // ... and of this one.
  Cost full_cost;                    // Per row of q, without the corrections for time,
  Cost sparse_cost;
  double full_ns = 0;  // ... and with them.
  double sparse_ns = 0;

  // What is to be read, and how long one thread takes.
  Cost predicted() const {
    return full ? Cost{full_cost.bytes, full_ns} : Cost{sparse_cost.bytes, sparse_ns};
  }
};

// The rule that makes all heads of a layer run `full` before anything is priced; empty if none
// does. Static text.
std::string_view RuleFor(const LayerQuestion& question);

// Prices what every head of a layer does where a rule or the plan leaves no choice.
HeadChoice PriceSettled(const LayerQuestion& question, const MachineConstants& machine);

HeadShape ShapeOf(const LayerQuestion& question);

// An index by which heads may draw without scoring all keys, where the plan leaves that open and
// the context is long enough for it to pay for what it takes to build; or null.
const IndexType* DrawingIndex(const LayerQuestion& question);

// Whether a head that may scan or draw by an index should do the latter: if that was measured to be
// clearly cheaper, and leaves out little of the mass that the error allows.
bool TakesIndex(const LayerQuestion& question, const HeadStatistics& head,
                const HeadChoice& by_scan, const HeadChoice& by_index);

// Prices a head of a question that no rule settles. `question.plan` is `auto`, or any query that
// chooses: that one runs as asked, and is priced for Explain.
HeadChoice ChooseHead(const LayerQuestion& question, const IndexType& index,
                      const HeadStatistics& head, const MachineConstants& machine);

// Rows of V that a q head is expected to read, for an error and a middle of so many tokens, before
// anything is known of the head.
double ExpectedRows(double error, double middle_tokens);

// What a head may read whose draws should take so many rows, so that the error is `error` as a mean
// over heads.
DrawBudget BudgetFor(double rows, double error);

// Tokens that are always attended to.
double FixedTokens(const LayerQuestion& question);

// Notes on a layer, for Explain: what the rules would have done with what is not there.
std::string NotesOf(const LayerQuestion& question);

}  // namespace attndb::planner

#endif  // ATTNDB_PLANNER_OPTIMIZER_H_
