// Sampled q rows of one kv head, for the training of indexes.
//
// Shapes:  q [num_rows, RowElements(head_dim)] of KvShape::dtype, row-major; tokens and q_heads
//          [num_rows].
// Units:   tokens[i] = index of the token of q row i, counted from the start of the segment, in
//          ascending order (a token may have several rows); q_heads[i] = its q head inside the
//          group, [0, group_size).
// Threads: values; the maker of the view keeps its memory alive.
#ifndef ATTNDB_STORAGE_KV_QUERY_ROWS_H_
#define ATTNDB_STORAGE_KV_QUERY_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "attndb/result.h"
#include "storage/kv/memory_budget.h"

namespace attndb::storage {

struct QueryRows {
  const std::byte* q = nullptr;
  std::span<const uint32_t> tokens;
  std::span<const uint32_t> q_heads;

  uint64_t num_rows() const { return tokens.size(); }
};

// Query rows that own their memory.
struct QueryBuffer {
  Reservation reservation;  // For the capacity of the vectors below.
  std::vector<std::byte> q;
  std::vector<uint32_t> tokens;
  std::vector<uint32_t> q_heads;

  // Makes room for num_rows rows of `row_bytes` in all. False if the budget has no memory for them;
  // nothing has changed then. REQUIRES: at least as many as there are.
  bool Reserve(size_t num_rows, size_t row_bytes, MemoryBudget* budget) {
    Result<Reservation> room =
        budget->Reserve(num_rows * (row_bytes + 2 * sizeof(uint32_t)), "sampled q of a session");
    if (!room.ok()) return false;
    q.reserve(num_rows * row_bytes);
    tokens.reserve(num_rows);
    q_heads.reserve(num_rows);
    reservation = *std::move(room);
    return true;
  }

  QueryRows first(size_t num_rows) const {
    return {q.data(), std::span(tokens).first(num_rows), std::span(q_heads).first(num_rows)};
  }
};

// The first rows of a shared, constant buffer.
struct SharedQueries {
  std::shared_ptr<const QueryBuffer> buffer;
  size_t num_rows = 0;

  QueryRows rows() const { return buffer->first(num_rows); }
};

}  // namespace attndb::storage

#endif  // ATTNDB_STORAGE_KV_QUERY_ROWS_H_
