// The queries and indexes that plans can name, as tables: names, keys and the cost of a search.
//
//   PlanRegistry registry = BuiltinPlans();     // The plans of this version.
//   registry.AddQuery({.name = "toy", ...});    // One more.
//   Result<Plan> plan = Plan::Parse("topk(k=8,index=toy)", registry);
//
// attention/registry.h has the searches of queries, and derived/kinds.h the objects of indexes; no
// other code knows their names.
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

// How the attention engine answers a query.
enum class QueryKind : uint8_t {
  kFull,    // All tokens.
  kWindow,  // Sink and window only.
  kSearch,  // Sink, window and a search's choice of the middle, per q head.
  kAuto,    // Sink, window and, per q head, a draw of the middle that keeps LayerPlan::error.
  kRules,   // A rule set chooses one of the others, layer by layer (settle.h).
};

inline constexpr size_t kMaxArguments = 5;  // Arguments of one query, and of one index, at most.

// A key of a query or index. Its value is a number or one of some words.
struct Argument {
  std::string key;
  double min = 0.0;
  double max = 0.0;
  bool above_min = false;  // `min` itself is out of range.
  bool whole = false;
  std::vector<uint32_t> values;  // Not empty: the value is one of these whole numbers.
  // Not empty: the value is one of these words, kept as its index. The first word is the default.
  std::vector<std::string> words;
  // Error text for a value that is not a number or out of range; whole numbers need none.
  std::string error;
  // For a query: exactly one of the arguments with the same choice is given, unless they are
  // optional. For an index: all may be left out.
  uint8_t choice = 0;
  bool optional = false;
  double fallback = 0.0;  // Value where the text gives none.
};

// The given arguments: values in the order of the type's arguments.
struct ArgumentValues {
  std::array<double, kMaxArguments> values{};
  std::array<bool, kMaxArguments> given{};
  friend bool operator==(const ArgumentValues&, const ArgumentValues&) = default;
};

// The size of a search for one kv head and one row of q.
struct SearchSize {
  uint32_t group_size = 1;     // q heads that are searched together.
  double middle_tokens = 0;    // Neither sink nor window.
  double plane_tokens = 0;     // Tokens of the middle that have key planes.
  double fixed_tokens = 0;     // Sink and window.
  uint32_t bits = 0;           // Bits of the planes; 0 = K itself.
  double expected_tokens = 0;  // Tokens that it will select, per q head.
  bool draws = false;  // It draws by weight, from estimates of all tokens that may be heavy enough.
};

// The reads and the work of a search of that size; the cost model prices it.
struct SearchWork {
  double exact_keys = 0;     // Keys scored in a stream of K, once for the group.
  double scanned_keys = 0;   // Keys scored from planes, once for the group.
  double compared_keys = 0;  // Keys that each q head chooses among.
  double reranked_keys = 0;  // Rows of K that each q head reads at random places.
  double hops = 0;           // Reads of each q head that wait for the one before.
};

struct IndexType {
  std::string name;
  std::vector<uint32_t> bits;       // Bits that a search can scan; 0 = K itself.
  std::vector<Argument> arguments;  // Given after `index=`.
  std::function<SearchWork(const SearchSize&)> predict;
  // The use of the derived kind by which it finds keys without scoring all of them
  // (index/key_index.h). Empty: it chooses among the scores of all keys. An index that finds keys
  // has bits 0 only: the keys that it finds are scored exactly.
  std::string finds_by;
  // Arguments whose every setting has its own derived objects. These are named by finds_by and the
  // values, as in "pq_8x6", or by words other than the first, as in "graph_head". Usually none.
  std::vector<std::string> settings;
  // The argument that is the effort of a search (index/key_index.h); empty: none.
  std::string effort_key;
  // Says why its arguments conflict with each other or with the query; empty if they don't. May be
  // null.
  std::function<std::string(const LayerPlan& plan)> conflict;
  // Bits of the planes that a search scans, for the price.
  uint32_t scan_bits = 0;
  // How a plan draws by this index. `auto` may choose an index that has estimates.
  enum class Draws : uint8_t {
    kNot,
    kByEstimates,  // By estimates of the scores, which it scans at scan_bits.
    kByCodes,      // In two phases; the first uses weights from small codes.
  };
  Draws draws = Draws::kNot;
  bool scores_all = false;  // It estimates the scores of all keys, so that masses can be computed.
  // It selects blocks of keys, and can only tell the best ones: it answers queries for the k best,
  // not ranges.
  bool best_only = false;
  // A caller's own type (attndb/custom_index.h): the index gets the values of its arguments, and
  // its objects are kept in memory only.
  bool is_custom = false;
  // The share of a remainder that its clusters estimate, unless the plan says another. 0: it has no
  // clusters.
  double estimated_share = 0.0;

  // Bits that `bits=` may ask for in a query of that kind.
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
  std::string needs;  // The argument that must be given, with an example; empty if none must.
  uint32_t default_bits = 0;  // Bits where the text gives none.
  bool by_index = false;      // An index that does not score all keys can answer it.
  bool is_range = false;      // Needs an index that can tell which keys lie in a range of the best.
  std::string index;          // The only index that answers it; empty: any of those.
  // Middle tokens that a q head will select; negative = unknown before a run. May be null.
  std::function<double(const LayerPlan& plan, double middle_tokens)> predict_selected;
};

class PlanRegistry {
 public:
  // A named plan text, for instance a paper's setting; further keys may follow the name.
  struct Preset {
    std::string name;
    std::string text;
  };

  // REQUIRES: the name is not taken; at most kMaxArguments arguments. The first index is the
  //           default.
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

  // "full, topk(k=...), ...": for messages about an unknown name.
  std::string KnownQueries() const;
  std::string KnownIndexes() const;

 private:
  // Kept behind pointers, because plans point to them.
  std::vector<std::unique_ptr<const QueryType>> queries_;
  std::vector<std::unique_ptr<const IndexType>> indexes_;
  std::vector<Preset> presets_;
};

}  // namespace attndb::planner

#endif  // ATTNDB_PLANNER_PLAN_REGISTRY_H_
