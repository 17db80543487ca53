// Types of queries and indexes of the caller's own: code that decides which tokens a plan attends
// to, as attndb's own indexes do.
//
//   class Pages final : public CustomIndex { ... };                   // docs/plan.md#custom
//   options.custom_indexes = {{.name = "pages",
//                              .keys = {{.name = "best", .min = 1, .max = 64, .whole = true,
//                                        .fallback = 8}},
//                              .index = std::make_shared<Pages>()}};
//   session.SetPlan("pages(best=4)");               // a query: attends to all that is selected
//   session.SetPlan("topk(k=64,index=pages)");      // an index: of it, the k best of each q head
//
// Rows:    an object is made of one kv head's rows of one run of tokens that do not change any
//          more: a stored segment (Build), or 4,096 tokens that a session appended (Extend). Rows
//          are counted from 0 in each. Keys are after RoPE, in layout kHalf, and so is q.
// Exact:   what is selected is attended to by its own K and V. So are sinks, the window, tokens of
//          no object yet, and heads with NaN or Inf, of which no object is made.
// Hidden:  Select is told which rows the query may see: the middle of a prefix, of what a filter
//          leaves. Of the ranges that it returns, the other rows are left out. An object is shared
//          by all sessions, so Build sees every row of its run.
// Memory:  objects are kept in the store's memory, by the size that they report, and dropped where
//          K and V need the room; none is written to disk, and each process builds its own, in the
//          background, once a plan asks (Session::AwaitDerived waits for that).
// Errors:  what Select throws or returns, and a selection that is wrong, fail the call with
//          kInvalidArgument, which names the type, where it was, what was expected and found; a
//          step that failed so is left by Session::Crop. What Build throws or returns is the error
//          of Session::AwaitDerived and DB::WaitForBackground; rows without an object are attended
//          to exactly. std::bad_alloc is kResourceExhausted.
// Threads: all calls may come from several threads at once, of attndb and of the caller, and must
//          not call the DB or a session.
// Source:  [Alaya] 6: query and index types can be extended.
#ifndef ATTNDB_CUSTOM_INDEX_H_
#define ATTNDB_CUSTOM_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "attndb/result.h"
#include "attndb/status.h"
#include "attndb/types.h"

namespace attndb {

// What an object is made from. Views end with the call.
struct CustomRows {
  LayerId layer = 0;
  uint32_t kv_head = 0;
  uint64_t num_rows = 0;
  uint32_t head_dim = 0;
  uint32_t v_head_dim = 0;
  std::span<const float> keys;    // [num_rows, head_dim]
  std::span<const float> values;  // [num_rows, v_head_dim]
  // q of the group's heads, as sampled at Store and Import (DBOptions::query_sample), and the row
  // whose q each is. [num_queries, head_dim] and [num_queries]; of appended tokens there are none.
  std::span<const float> queries;
  std::span<const uint32_t> query_rows;
  int64_t first_position = 0;  // Of row 0 under RoPE.
  float scale = 0.0f;          // logit = scale * (q . k)
};

// What Build made of a run's rows.
class CustomObject {
 public:
  virtual ~CustomObject() = default;
  virtual uint64_t memory_bytes() const = 0;
};
using CustomObjectPtr = std::shared_ptr<const CustomObject>;

// A run that a query sees something of. With a filter there may be several of one object.
struct CustomPart {
  const CustomObject* object = nullptr;
  uint64_t num_rows = 0;
  TokenRange visible;  // Rows that may be selected; not empty.
};

// One token's q rows of the heads that share a kv head.
struct CustomQuery {
  LayerId layer = 0;
  uint32_t kv_head = 0;
  uint32_t group_size = 0;
  uint32_t head_dim = 0;
  uint32_t v_head_dim = 0;
  float scale = 0.0f;  // logit = scale * (q . k), or soft_cap * tanh(that / soft_cap).
  float soft_cap = 0.0f;
  std::span<const float> q;           // [group_size, head_dim]
  std::span<const CustomPart> parts;  // In the order of their tokens; at least one.
  std::span<const double> values;     // Of the type's keys, in their order.
  // Whether all that is selected is attended to. Else it is scored, and another query chooses.
  bool is_query = false;
  uint32_t k = 0;  // Of that query, if it is topk: tokens that each q head keeps.
};

// Rows [begin, end) of parts[part].
struct CustomRange {
  uint32_t part = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
  friend bool operator==(const CustomRange&, const CustomRange&) = default;
};

// What one q head attends to.
struct CustomSelection {
  // Ascending by part and row; none empty, none overlaps another.
  std::vector<CustomRange> ranges;
  // Where is_query: an estimate of the visible rows that are not selected, merged as if it were
  // their attention. The natural log of the sum of exp(logit), and the mean of v by these weights,
  // [v_head_dim]. -inf: they are dropped. Not looked at where another query chooses.
  float rest_lse = -std::numeric_limits<float>::infinity();
  std::vector<float> rest_value;
};

class CustomIndex {
 public:
  virtual ~CustomIndex() = default;

  // Makes the object of a stored segment's rows.
  virtual Result<CustomObjectPtr> Build(const CustomRows& rows) const = 0;
  // The same of rows that a session appended: once these are stored, Build makes it of the segment
  // that they are in.
  virtual Result<CustomObjectPtr> Extend(const CustomRows& rows) const { return Build(rows); }
  // Fills `selections`, [group_size], which are empty.
  virtual Status Select(const CustomQuery& query, std::span<CustomSelection> selections) const = 0;
};

// A key that plans may give such a type a number by: a word of [A-Za-z0-9_] that no key of attndb's
// queries is.
struct CustomKey {
  std::string name;
  double min = 0.0;
  double max = 0.0;
  bool whole = false;     // Then min >= 0 and max <= 2^30.
  double fallback = 0.0;  // Where a plan does not give it; in [min, max].
};

struct CustomIndexType {
  static constexpr size_t kMaxKeys = 4;
  static constexpr size_t kMaxTypes = 16;  // Of a store.

  std::string name;  // A word as CustomKey's, that no query, preset or index of attndb's has.
  std::vector<CustomKey> keys;
  std::shared_ptr<const CustomIndex> index;
};

}  // namespace attndb

#endif  // ATTNDB_CUSTOM_INDEX_H_
