// A plan says what a session computes in each layer. It has a text form.
//
//   plan  := query { ";" "layers" range { "," range } ":" query }
//   range := number [ "-" number ]                                (both ends included)
//   query := name [ "(" key "=" value { "," key "=" value } ")" ]
//
// Names: a PlanRegistry defines queries, indexes and presets, and their own keys. Keys of every
//        query but full: sink, window; of every one that chooses tokens index, bits=exact|...,
//        await=0|1, and remainder=drop|mean|sample:n|clusters[:share] or exact_fallback,
//        tail=searched|exact and static=none|prefill:n, or for auto value_bits=exact|8.
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

// The shortest text that reads back as the same number; whole numbers have no exponent.
std::string NumberText(double value);

// The size of a call.
struct CallSize {
  uint64_t num_rows = 1;    // Rows of q.
  uint64_t num_tokens = 0;  // Visible to the newest row.
  // Visible tokens in sealed segments; the other visible ones are the tail's.
  uint64_t num_stored = 0;
  uint32_t dense_query_tokens = 64;
};

// The number of a call's middle tokens that a drawing plan may read, per row and q head.
struct DrawBudget {
  double first_rows = 0;  // Rows of the first sample.
  double tolerated_error =
      0;  // A larger estimated error, relative to the norm of the output, asks for more rows.
  // For draws by codes, relative to the weights' sum (attention/weight_histogram.h): the reduction
  // of the standard deviation that one more token must bring, and the largest deviation that may
  // stay.
  double trade = 0;
  double max_spread = 0;
};

// The treatment of middle tokens that a search leaves out.
enum class Remainder : uint8_t {
  kDrop,
  kMean,    // Estimated by means of blocks of values, weighted by the blocks' estimated mass.
  kSample,  // Estimated from a sample of `samples` tokens.
  // For an index that does not score them: clusters estimate a share of them.
  kClusters,
};

// The query of one layer.
struct LayerPlan {
  QueryKind kind = QueryKind::kFull;  // The kind of `query`.
  const QueryType* query = nullptr;   // Null: full.
  const IndexType* index = nullptr;   // Null: nothing is searched.
  ArgumentValues arguments;           // Values of the query's keys.
  ArgumentValues index_arguments;     // Values of the index's keys.
  // True: the text does not name the index, so it is not written out. False: `auto` may choose no
  //       other.
  bool default_index = true;
  // kAuto: the relative error of the output that its draws keep, a mean over heads.
  double error = 0.0;
  uint32_t bits = 0;  // Bits of the key planes that are searched; 0 = K itself.
  Remainder remainder = Remainder::kDrop;  // For kSearch.
  uint32_t samples = 0;                    // For Remainder::kSample.
  double cluster_share = 0.0;              // For Remainder::kClusters; in (0, 1].
  // kAuto: bits of the value planes that replace V of drawn light tokens; 0 = none.
  uint32_t value_bits = 0;
  // The largest share of the mass that may be left out by a row's bound; 0 = no bounds.
  double exact_fallback = 0.0;
  // Engines should wait before a context's second token until the derived objects of the plan are
  // ready (Session::awaits_derived). The results of calls do not depend on it.
  bool awaits = false;
  uint32_t sink = 16;     // First tokens that are always attended to.
  uint32_t window = 128;  // Last tokens that are always attended to, the row's own too.
  // For a search: the whole tail is attended to, and `window` counts the last tokens before it.
  bool exact_tail = false;
  // Tokens of the middle that a search always attends to, so that they are no candidates: the
  // tokens that the prompt's last queries weighed most, by kv head (index/prefill/). 0: none.
  uint32_t num_static = 0;

  // Whether it chooses tokens, for each q head.
  bool Chooses() const { return kind == QueryKind::kSearch || kind == QueryKind::kAuto; }
  // Whether it draws from the scores of all keys, instead of searching.
  bool Draws() const { return kind == QueryKind::kAuto; }
  // Whether its index finds keys without scoring all of them.
  bool Finds() const { return kind == QueryKind::kSearch && UsesIndex(); }
  // Whether it finds or draws tokens by an index.
  bool UsesIndex() const { return Chooses() && index != nullptr && !index->finds_by.empty(); }
  // Whether it draws by an index in two phases (IndexType::Draws::kByCodes).
  bool DrawsByCodes() const {
    return Draws() && index != nullptr && index->draws == IndexType::Draws::kByCodes;
  }
  // Whether it scores keys from key planes if they exist. A plan that draws by codes does so for
  // heads that this makes faster.
  bool ReadsPlanes() const { return Chooses() && bits != 0; }
  // The use of the derived kind by which its index finds keys (IndexType::finds_by), with settings.
  // REQUIRES: UsesIndex().
  std::string FindsBy() const;
  // The search effort of its index; 0: the index decides. REQUIRES: UsesIndex().
  float Effort() const;
  // Whether tokens that are left out are estimated.
  bool Estimates() const { return remainder != Remainder::kDrop || Draws(); }
  // Whether means of values, or norms of these, are read.
  bool ReadsMeans() const { return remainder == Remainder::kMean || Bounds(); }
  // Whether clusters represent the tokens that its index left out.
  bool EstimatesByClusters() const { return remainder == Remainder::kClusters && Finds(); }
  // The share of these tokens that is estimated; 0: none.
  double EstimatedShare() const { return EstimatesByClusters() ? cluster_share : 0.0; }
  // The use of the derived kind that has these clusters (index/cluster_sums.h). REQUIRES:
  // EstimatesByClusters().
  std::string EstimatesBy() const;
  // Whether it reads derived objects if they are ready.
  bool ReadsDerived() const {
    return ReadsPlanes() || UsesIndex() || value_bits != 0 || ReadsMeans() || HasStatic();
  }
  // Whether it also reads objects that can be derived from the session's tail. Rankings by a
  // prompt's last queries can't: only segments have them.
  bool DerivesFromTail() const {
    return !exact_tail && (ReadsPlanes() || UsesIndex() || value_bits != 0 || ReadsMeans());
  }
  // Whether it attends to tokens because the prompt weighed them most.
  bool HasStatic() const { return num_static != 0; }
  // Whether it bounds the tokens that it leaves out. Rows with too large a bound attend to all
  // tokens.
  bool Bounds() const { return exact_fallback > 0.0; }
  // Value of an argument of the query or of the index, or its fallback. REQUIRES: one of them has
  // the key.
  double Get(std::string_view key) const;
  // Whether the text gives that argument, of the query or of the index.
  bool Given(std::string_view key) const;
  // The word of the argument. A key of the query that is not given has an empty word; a key of the
  // index has its first word. Empty if no key has that name.
  std::string_view Word(std::string_view key) const;
  // Changes an argument of the query or of the index. REQUIRES: one has the key, and the word.
  void Set(std::string_view key, double value);
  void SetWord(std::string_view key, std::string_view word);
  // Removes an argument of the query. REQUIRES: the query has the key.
  void Clear(std::string_view key);
  bool Is(std::string_view query_name) const;
  // The candidates of a row that sees num_tokens tokens, the first num_stored of which are sealed.
  TokenRange MiddleOf(uint64_t num_tokens, uint64_t num_stored) const;
  // The number of tokens that the row always attends to: sinks, window and an exact tail; without
  // static tokens, which lie in the middle.
  uint64_t NumFixed(uint64_t num_tokens, uint64_t num_stored) const;
  // The reason why a call of this size reads all visible tokens; empty if it chooses. Static text.
  std::string_view ReasonForFull(const LayerSpec& layer, const CallSize& size) const;
  // Replaces the objective of `auto` by an error.
  void SetError(double value);
  // Canonical text; parses back to an equal plan.
  std::string ToString() const;
  friend bool operator==(const LayerPlan&, const LayerPlan&) = default;

 private:
  // An argument of the query or of the index; `argument` is null if neither has one with that name.
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
