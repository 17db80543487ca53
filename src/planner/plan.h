// What a session computes in each layer: the plan, and its text.
//
//   plan  := query { ";" "layers" range { "," range } ":" query }
//   range := number [ "-" number ]                                (both ends included)
//   query := name [ "(" key "=" value { "," key "=" value } ")" ]
//
// Names: queries, indexes and presets, and the keys that each takes of its own, are those of a
//        PlanRegistry. Keys of every query but full: sink, window; of every one that chooses tokens
//        index, bits=exact|..., await=0|1, and remainder=drop|mean|sample:n|clusters[:share] or
//        exact_fallback, tail=searched|exact and static=none|prefill:n, or for auto
//        value_bits=exact|8.
// Threads: values. They point into the registry that they were parsed with.
#ifndef ATTNDB_PLANNER_PLAN_H_
#define ATTNDB_PLANNER_PLAN_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"
#include "planner/plan_registry.h"

namespace attndb::planner {

// Shortest text that reads back as the same number; whole ones without an exponent.
std::string NumberText(double value);

// Of a call.
struct CallSize {
  uint64_t num_rows = 1;    // Of q.
  uint64_t num_tokens = 0;  // Visible to the newest row.
  uint64_t num_stored = 0;  // Of these, in sealed segments; the rest is the tail.
  uint32_t dense_query_tokens = 64;
};

// What a plan that draws may read of a call's middle, per row and q head.
struct DrawBudget {
  double first_rows = 0;       // At first; more where the sample finds itself off
  double tolerated_error = 0;  // ... by more than this, relative to the norm of the output.
  // By codes, of weights over their sum (attention/weight_histogram.h): what one more token must
  // take off the standard deviation, and what that may be at most.
  double trade = 0;
  double max_spread = 0;
};

// What becomes of the middle tokens that a search leaves out.
enum class Remainder : uint8_t {
  kDrop,
  kMean,    // Estimated: means of blocks of values, by the blocks' estimated mass.
  kSample,  // ... from a sample of `samples` tokens.
  // ... where an index does not score them: by clusters, of which a share is estimated.
  kClusters,
};

// The query of one layer.
struct LayerPlan {
  QueryKind kind = QueryKind::kFull;  // query's.
  const QueryType* query = nullptr;   // Null: full.
  const IndexType* index = nullptr;   // Null: nothing is searched.
  ArgumentValues arguments;           // Of the query,
  ArgumentValues index_arguments;     // ... and of the index.
  // The registry's default is not written out; where it is given, `auto` may not choose another.
  bool default_index = true;
  double error = 0.0;  // kAuto: what its draws are to keep, as a mean over heads.
  uint32_t bits = 0;   // Of the key planes that are searched; 0 = K itself.
  Remainder remainder = Remainder::kDrop;  // Of a search.
  uint32_t samples = 0;                    // Of kSample.
  double cluster_share = 0.0;              // Of kClusters; in (0, 1].
  // kAuto: of the value planes that stand for V of what was drawn and weighs little; 0 = none.
  uint32_t value_bits = 0;
  double exact_fallback = 0.0;  // Of the mass left out, what a row's bound may be; 0 = no bounds.
  // Engines are to wait, before a context's second token, for what it reads of derived objects
  // (Session::awaits_derived). No call computes anything else for it.
  bool awaits = false;
  uint32_t sink = 16;     // First tokens that are always attended to.
  uint32_t window = 128;  // Last tokens that are always attended to, the row's own too.
  // Of a search: the whole tail is attended to, and `window` counts the last tokens before it.
  bool exact_tail = false;
  // How many tokens of the middle a search attends to in any case, so that they are no candidates:
  // those that the prompt's last queries weighed most, by kv head (index/prefill/). 0: none.
  uint32_t num_static = 0;

  // Whether it chooses tokens, per q head.
  bool Chooses() const { return kind == QueryKind::kSearch || kind == QueryKind::kAuto; }
  // Whether it draws from the scores of all keys, instead of searching.
  bool Draws() const { return kind == QueryKind::kAuto; }
  // Whether its index finds keys without scoring all of them.
  bool Finds() const { return kind == QueryKind::kSearch && UsesIndex(); }
  // ... or draws by one.
  bool UsesIndex() const { return Chooses() && index != nullptr && !index->finds_by.empty(); }
  // ... in two phases (IndexType::Draws::kByCodes).
  bool DrawsByCodes() const {
    return Draws() && index != nullptr && index->draws == IndexType::Draws::kByCodes;
  }
  // Whether it scores what it can from key planes. A plan that draws by codes does for heads that
  // take less time so.
  bool ReadsPlanes() const { return Chooses() && bits != 0; }
  // The companions by which its index finds keys (IndexType::finds_by), settings included.
  // REQUIRES: UsesIndex().
  std::string FindsBy() const;
  // How hard its index is to look; 0: as it thinks fit. REQUIRES: UsesIndex().
  float Effort() const;
  // Whether what is left out is estimated.
  bool Estimates() const { return remainder != Remainder::kDrop || Draws(); }
  // Whether means of values, or norms of them, are read.
  bool ReadsMeans() const { return remainder == Remainder::kMean || Bounds(); }
  // Whether clusters stand for what its index left out,
  bool EstimatesByClusters() const { return remainder == Remainder::kClusters && Finds(); }
  // ... and which share of them; 0: none.
  double EstimatedShare() const { return EstimatesByClusters() ? cluster_share : 0.0; }
  // The companions that have these clusters (index/cluster_sums.h). REQUIRES:
  // EstimatesByClusters().
  std::string EstimatesBy() const;
  // Whether it reads anything that is derived from K and V, where that is ready.
  bool ReadsDerived() const {
    return ReadsPlanes() || UsesIndex() || value_bits != 0 || ReadsMeans() || HasStatic();
  }
  // Whether what it reads may be derived from the session's tail, too: prompts' last queries are
  // known of segments only.
  bool DerivesFromTail() const {
    return !exact_tail && (ReadsPlanes() || UsesIndex() || value_bits != 0 || ReadsMeans());
  }
  // Whether some tokens are attended to because of how the prompt weighed them.
  bool HasStatic() const { return num_static != 0; }
  // Whether what is left out is bounded, and rows whose bound is too large attend to all tokens.
  bool Bounds() const { return exact_fallback > 0.0; }
  // Value of an argument of the query or of the index, or its fallback. REQUIRES: one has the key.
  double Get(std::string_view key) const;
  // Whether the text has that argument, of the query or of the index.
  bool Given(std::string_view key) const;
  // The word of such an argument: of the query, empty if it is not given; of the index, then the
  // first of its words. Empty if there is none of that name.
  std::string_view Word(std::string_view key) const;
  // Changes an argument of the query or of the index. REQUIRES: one has the key, and the word.
  void Set(std::string_view key, double value);
  void SetWord(std::string_view key, std::string_view word);
  // Takes back an argument of the query. REQUIRES: it has the key.
  void Clear(std::string_view key);
  bool Is(std::string_view query_name) const;
  // The candidates of a row that sees num_tokens, of which the first num_stored are sealed.
  TokenRange MiddleOf(uint64_t num_tokens, uint64_t num_stored) const;
  // Sinks, window and an exact tail: the tokens that the row attends to in any case, but for static
  // ones, which lie in the middle.
  uint64_t NumFixed(uint64_t num_tokens, uint64_t num_stored) const;
  // Why such a call has no choice but to read all that it sees; empty if it chooses. Static text.
  std::string_view ReasonForFull(const LayerSpec& layer, const CallSize& size) const;
  // Replaces the objective of `auto` by an error.
  void SetError(double value);
  // Canonical text; parses back to an equal plan.
  std::string ToString() const;
  friend bool operator==(const LayerPlan&, const LayerPlan&) = default;

 private:
  // An argument of the query or of the index; null if neither has one of that name.
  struct FoundArgument {
    const Argument* argument = nullptr;
    double value = 0;
    bool given = false;
    bool of_index = false;
  };
  FoundArgument Find(std::string_view key) const;
};

class Plan {
 public:
  // `registry` must outlive the plan.
  // Errors: kInvalidArgument with the column (from 1) and what was expected there; kUnsupported for
  //         an index, bits and a remainder that this version does not have.
  static Result<Plan> Parse(std::string_view text, const PlanRegistry& registry);

  const LayerPlan& ForLayer(LayerId layer) const;  // The last override that names it, or the base.
  std::string ToString() const;

  // Errors: kInvalidArgument if an override names a layer that a model of num_layers does not have.
  Status CheckLayers(uint32_t num_layers) const;

 private:
  friend class PlanParser;
  struct Override {
    LayerId first = 0;
    LayerId last = 0;
    LayerPlan plan;
  };

  LayerPlan base_;
  std::vector<Override> overrides_;
};

}  // namespace attndb::planner

#endif  // ATTNDB_PLANNER_PLAN_H_
