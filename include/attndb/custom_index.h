// The caller's own types of queries and indexes: code that selects the tokens that a plan attends
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
// Rows:    an object is made from one kv head's rows of one run of tokens that no longer changes: a
//          stored segment (Build), or 4,096 tokens that a session appended (Extend). Rows are
//          counted from 0 in each run. Keys and q are after RoPE, in layout kHalf.
// Exact:   selected tokens are attended to by their own K and V. So are sinks, the window, tokens
//          that no object holds yet, and heads with NaN or Inf, for which no object is made.
// Hidden:  Select is told which rows the query may see: the rows that a reused prefix, the filter,
//          sinks and the window leave. Select may return ranges with other rows; those rows are
//          ignored. All sessions share an object, so Build sees every row of its run.
// Memory:  the store keeps objects in memory, counts the size that they report, and drops them if K
//          and V need the room. No object is written to disk. Each process builds its own objects,
//          in the background, once a plan asks for them (Session::AwaitDerived waits for that).
// Errors:  if Select throws, fails, or returns a wrong selection, the call fails with
//          kInvalidArgument. The message names the type, the place, what was expected and what was
//          found; Session::Crop leaves the failed step. An error or exception of Build is the error
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

// The rows from which an object is made. The views end with the call.
struct CustomRows {
  LayerId layer = 0;
  uint32_t kv_head = 0;
  uint64_t num_rows = 0;
  uint32_t head_dim = 0;
  uint32_t v_head_dim = 0;
  std::span<const float> keys;    // [num_rows, head_dim]
  std::span<const float> values;  // [num_rows, v_head_dim]
  // Sampled q of the group's heads (DBOptions::query_sample), [num_queries, head_dim]. query_rows
  // [num_queries] is the row of each q's token. Both are empty for appended tokens.
  std::span<const float> queries;
  std::span<const uint32_t> query_rows;
  int64_t first_position = 0;  // Position of row 0 under RoPE.
  float scale = 0.0f;          // logit = scale * (q . k)
};

// The implementer's own data, which Build makes from the rows of one run.
class CustomObject {
 public:
  virtual ~CustomObject() = default;
  virtual uint64_t memory_bytes() const = 0;
};
using CustomObjectPtr = std::shared_ptr<const CustomObject>;

// One run of tokens, and the rows of the run that the query may see. A filter may cut a run into
// several parts, which share its object.
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
  std::span<const double> values;  // Values of CustomIndexType::keys in this plan, in that order.
  // True: the plan names the type as its query, and all selected tokens are attended to. False: the
  //       plan names the type as the index of another query, which chooses among the selected rows
  //       by exact score.
  bool is_query = false;
  uint32_t k = 0;  // Tokens that each q head keeps, if the plan's query is topk; else 0.
};

// Rows [begin, end) of parts[part].
struct CustomRange {
  uint32_t part = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
  friend bool operator==(const CustomRange&, const CustomRange&) = default;
};

// The tokens that one q head attends to.
struct CustomSelection {
  // Ascending by part and row; none empty, none overlaps another.
  std::vector<CustomRange> ranges;
  // If is_query: an estimate of the visible rows that are not selected, merged into the output as
  // if they had been attended to. rest_lse is the natural log of the sum of their exp(logit), -inf
  // if they are dropped. rest_value is the mean of their v weighted by exp(logit), [v_head_dim].
  // Ignored if !is_query.
  float rest_lse = -std::numeric_limits<float>::infinity();
  std::vector<float> rest_value;
};

class CustomIndex {
 public:
  virtual ~CustomIndex() = default;

  // Makes the object of a stored segment's rows.
  virtual Result<CustomObjectPtr> Build(const CustomRows& rows) const = 0;
  // Makes the object of rows that a session appended and has not stored. Once they are stored,
  // Build makes the object of the segment that holds them.
  virtual Result<CustomObjectPtr> Extend(const CustomRows& rows) const { return Build(rows); }
  // Fills `selections` [group_size], which are empty at first, with the tokens that each q head of
  // query.q attends to.
  virtual Status Select(const CustomQuery& query, std::span<CustomSelection> selections) const = 0;
};

// A number that a plan may give the type, as key=number. The name is a word of [A-Za-z0-9_] that is
// no key of attndb's own queries.
struct CustomKey {
  std::string name;
  double min = 0.0;
  double max = 0.0;
  bool whole = false;     // Then min >= 0 and max <= 2^30.
  double fallback = 0.0;  // The value where a plan does not give the key; in [min, max].
};

struct CustomIndexType {
  static constexpr size_t kMaxKeys = 4;
  static constexpr size_t kMaxTypes = 16;  // Types in DBOptions::custom_indexes.

  std::string name;  // A word of [A-Za-z0-9_] that names no query, preset or index of attndb.
  std::vector<CustomKey> keys;
  std::shared_ptr<const CustomIndex> index;
};

}  // namespace attndb

#endif  // ATTNDB_CUSTOM_INDEX_H_
