// Sampled q rows of one kv head, on which indexes are trained.
//
// Shapes:  q [num_rows, RowElements(head_dim)] of KvShape::dtype, row-major; tokens and q_heads
//          [num_rows].
// Units:   tokens[i] = index of the token whose q row i is, counted from the start of the segment,
//          in ascending order (a token may have several rows); q_heads[i] = its q head inside the
//          group, [0, group_size).
// Threads: values; whoever made the view keeps its memory alive.
#ifndef ATTNDB_STORAGE_KV_QUERY_ROWS_H_
#define ATTNDB_STORAGE_KV_QUERY_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace attndb::storage {

struct QueryRows {
  const std::byte* q = nullptr;
  std::span<const uint32_t> tokens;
  std::span<const uint32_t> q_heads;

  uint64_t num_rows() const { return tokens.size(); }
};

// Such rows with memory of their own.
struct QueryBuffer {
  std::vector<std::byte> q;
  std::vector<uint32_t> tokens;
  std::vector<uint32_t> q_heads;

  QueryRows first(size_t num_rows) const {
    return {q.data(), std::span(tokens).first(num_rows), std::span(q_heads).first(num_rows)};
  }
};

// The first rows of a buffer that several share and nobody changes.
struct SharedQueries {
  std::shared_ptr<const QueryBuffer> buffer;
  size_t num_rows = 0;

  QueryRows rows() const { return buffer->first(num_rows); }
};

}  // namespace attndb::storage

#endif  // ATTNDB_STORAGE_KV_QUERY_ROWS_H_
