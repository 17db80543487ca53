// The source and the options of a graph's build.
//
// Threads: values; the caller keeps their memory alive.
#ifndef ATTNDB_INDEX_GRAPH_GRAPH_SOURCE_H_
#define ATTNDB_INDEX_GRAPH_GRAPH_SOURCE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "common/thread_pool.h"
#include "kernels/layout.h"
#include "storage/kv/query_rows.h"

namespace attndb::index {

struct GraphSource {
  kernels::RowsView keys;  // Finite.
  size_t num_keys = 0;
  // Training queries of all q heads of the group, which then share the graph; of the keys' type and
  // row length. May be empty: keys stand in for them.
  storage::QueryRows queries;
  uint64_t first_token = 0;        // Token of key 0, counted as queries.tokens are.
  std::optional<uint32_t> q_head;  // If set: only this head's queries are used.
};

struct GraphOptions {
  // Limit on training queries, which are spaced evenly; 0: 40 % of the keys (AlayaDB 9.2.1) up to
  // 32,768, which bounds the time of a build. The lists that they find take at most kMaxListBytes.
  size_t max_queries = 0;
  size_t keys_per_query = 100;  // RoarGraph's N_q.
  size_t slot_bytes = 48;       // graph_slots.h.
  ThreadPool* pool = nullptr;   // Null: the caller's thread alone.
  // Polled with relaxed loads: a build that sees true returns kCancelled soon. Null: never.
  const std::atomic<bool>* cancel = nullptr;
};

// Options of RoarGraph as published (roar_builder.h).
struct RoarOptions {
  size_t max_queries = 0;       // See GraphOptions.
  size_t keys_per_query = 100;  // N_q; >= 1.
  size_t max_degree = 35;       // M, 1 to kMaxRoarDegree: a key has 2 M neighbours at most.
  size_t search_window = 500;   // L; >= 1.
  ThreadPool* pool = nullptr;
  const std::atomic<bool>* cancel = nullptr;
};
inline constexpr size_t kMaxRoarDegree = 127;

// Bytes of the lists of keys that training queries find: 5 million queries with N_q = 100.
inline constexpr size_t kMaxListBytes = size_t{2} << 30;

// The source with only the queries of tokens whose keys are `first_key` and later.
GraphSource WithQueriesFrom(const GraphSource& source, size_t first_key);
// The source with only the queries of tokens whose keys are before `first_key`.
GraphSource WithQueriesBefore(const GraphSource& source, size_t first_key);

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_GRAPH_GRAPH_SOURCE_H_
