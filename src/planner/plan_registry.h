// The queries and indexes that plans can name, in tables: what each is called, the keys it takes
// and what its search costs. How it searches is attention's to know (attention/registry.h).
//
//   PlanRegistry registry = BuiltinPlans();     // what this version has
//   registry.AddQuery({.name = "toy", ...});              // one more
//   Result<Plan> plan = Plan::Parse("topk(k=8,index=toy)", registry);
//
// What searches for a query is registered in attention/registry.h, what an index is made of in
// derived/kinds.h: nothing else knows their names.
//
// Threads: constant after the last Add; then shared by any number of threads. Plans point into it,
//          so it outlives them.
#ifndef ATTNDB_PLANNER_PLAN_REGISTRY_H_
#define ATTNDB_PLANNER_PLAN_REGISTRY_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace attndb::planner {

struct LayerPlan;

// What the attention engine does for a query.
enum class QueryKind : uint8_t {
  kFull,    // All tokens.
  kWindow,  // Sink and window only.
  kSearch,  // Sink, window and what a search chooses of the middle, per q head.
  kAuto,    // Sink, window and, per q head, a draw of the middle that keeps LayerPlan::error.
  kRules,   // What a rule set makes of it, layer by layer (settle.h): one of the others.
};

inline constexpr size_t kMaxArguments = 5;  // Of one query, and of one index.

// A key with a number, or with one of some words.
struct Argument {
  std::string key;
  double min = 0.0;
  double max = 0.0;
  bool above_min = false;  // `min` itself is out of range.
  bool whole = false;
  std::vector<uint32_t> values;  // Not empty: a whole number that is one of these.
  // Not empty: one of these, kept as its place among them. The first one where it is not given.
  std::vector<std::string> words;
  std::string error;  // Of a value that is no number or out of range; whole numbers need none.
  // Of a query: exactly one of those that share a choice is given, unless they are optional. Of an
  // index: all may be left out.
  uint8_t choice = 0;
  bool optional = false;
  double fallback = 0.0;  // Where it is not given.
};

// Arguments as they were given: values in the order of the type's arguments.
struct ArgumentValues {
  std::array<double, kMaxArguments> values{};
  std::array<bool, kMaxArguments> given{};
  friend bool operator==(const ArgumentValues&, const ArgumentValues&) = default;
};

// What a search is about to be asked, of one kv head and one row of q.
struct SearchSize {
  uint32_t group_size = 1;     // q heads that are searched together.
  double middle_tokens = 0;    // Neither sink nor window.
  double plane_tokens = 0;     // Of these, those with key planes.
  double fixed_tokens = 0;     // Sink and window.
  uint32_t bits = 0;           // Of the planes; 0 = K itself.
  double expected_tokens = 0;  // That it will select, per q head.
  bool draws = false;          // By weight, from estimates of all that may weigh enough.
};

// What such a search reads and does: the cost model prices it.
struct SearchWork {
  double exact_keys = 0;     // Scored in a stream of K, once for the group.
  double scanned_keys = 0;   // Scored from planes, once for the group.
  double compared_keys = 0;  // That each q head chooses among.
  double reranked_keys = 0;  // Rows of K read here and there by each q head.
  double hops = 0;           // Reads by each q head that wait for the one before.
};

struct IndexType {
  std::string name;
  std::vector<uint32_t> bits;       // Of what a search scans; 0 = K itself.
  std::vector<Argument> arguments;  // Given after `index=`.
  std::function<SearchWork(const SearchSize&)> predict;
  // It finds keys without scoring all of them (index/key_index.h), in companions of this name;
  // empty: it chooses among the scores of all. Of the bits, such an index has 0: what it finds is
  // exact.
  std::string finds_by;
  // Arguments of which each setting has companions of its own: finds_by and their values name them,
  // as in "pq_8x6", and words but the first, as in "graph_head". Usually none.
  std::vector<std::string> settings;
  // Which of its arguments is the effort of a search (index/key_index.h); empty: none.
  std::string effort_key;
  // Why its arguments don't go together, or not with the query; empty if they do. May be null.
  std::function<std::string(const LayerPlan& plan)> conflict;
  // Bits of the planes that it scans on the way, for its price.
  uint32_t scan_bits = 0;
  // How a plan that draws does so by such an index. `auto` may choose one that has estimates.
  enum class Draws : uint8_t {
    kNot,
    kByEstimates,  // Of the scores that it scans, at scan_bits.
    kByCodes,      // In two phases, the first by weights that small codes give.
  };
  Draws draws = Draws::kNot;
  bool scores_all = false;  // It estimates the scores of all keys, of which a mass can be told.
  // It selects blocks of keys, of which it can tell no more than which are best: it answers queries
  // for the k best, and no ranges.
  bool best_only = false;
  // One of the caller's own (attndb/custom_index.h): the index has the values of its arguments, and
  // its companions are kept in memory only.
  bool is_custom = false;
  // It has clusters by which a remainder is estimated: the share of them that is, where the plan
  // does not say. 0: it has none.
  double estimated_share = 0.0;

  // That `bits=` may ask of it in such a query.
  std::vector<uint32_t> BitsFor(QueryKind kind) const {
    return kind == QueryKind::kAuto && draws != Draws::kNot ? std::vector<uint32_t>{scan_bits}
                                                            : bits;
  }
  bool HasBits(QueryKind kind, uint32_t asked) const {
    return std::ranges::count(BitsFor(kind), asked) != 0;
  }
};

struct QueryType {
  std::string name;
  QueryKind kind = QueryKind::kSearch;
  std::vector<Argument> arguments;
  std::string needs;          // What must be given, with an example; empty if nothing must.
  uint32_t default_bits = 0;  // Where the text has none.
  bool by_index = false;      // An index that finds keys without scoring all of them can answer it,
  bool is_range = false;      // ... if it can tell keys that lie in a range of the best.
  std::string index;          // The one that alone answers it; empty: any of those.
  // Middle tokens that a q head will select; negative = nobody knows before a run. May be null.
  std::function<double(const LayerPlan& plan, double middle_tokens)> predict_selected;
};

class PlanRegistry {
 public:
  // A plan text under a name, e.g. a paper's setting; more keys may follow the name.
  struct Preset {
    std::string name;
    std::string text;
  };

  // REQUIRES: names not taken; at most kMaxArguments arguments. The first index is the default one.
  void AddQuery(QueryType query);
  void AddIndex(IndexType index);
  void AddPreset(Preset preset);

  // Null if there is none.
  const QueryType* FindQuery(std::string_view name) const;
  const IndexType* FindIndex(std::string_view name) const;
  const Preset* FindPreset(std::string_view name) const;

  // REQUIRES: an index was added.
  const IndexType* default_index() const { return indexes_.front().get(); }
  std::span<const std::unique_ptr<const IndexType>> indexes() const { return indexes_; }

  // "full, topk(k=...), ...": for who named something else.
  std::string KnownQueries() const;
  std::string KnownIndexes() const;

 private:
  // Behind pointers, which plans keep.
  std::vector<std::unique_ptr<const QueryType>> queries_;
  std::vector<std::unique_ptr<const IndexType>> indexes_;
  std::vector<Preset> presets_;
};

}  // namespace attndb::planner

#endif  // ATTNDB_PLANNER_PLAN_REGISTRY_H_
