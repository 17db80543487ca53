// A run of tokens whose K and V no longer change, from which objects are derived: a sealed segment
// (segment.h) or a block of a session's tail (tail_block.h).
//
// Errors:  those of reading a segment. A block of a tail is in memory: it has no errors, and no
//          sampled queries.
// Threads: thread-safe.
#ifndef ATTNDB_STORAGE_KV_KV_RUN_H_
#define ATTNDB_STORAGE_KV_KV_RUN_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"
#include "common/aligned_buffer.h"
#include "storage/kv/kv_rows.h"
#include "storage/kv/memory_budget.h"
#include "storage/kv/query_rows.h"

namespace attndb::storage {

// The sampled queries of one layer, in memory as long as this lives. Not kept resident: decoding
// does not need them, building an index does, once.
class LayerQueries {
 public:
  uint32_t num_kv_heads() const { return static_cast<uint32_t>(rows_.size()); }
  const QueryRows& rows(uint32_t kv_head) const { return rows_[kv_head]; }

 private:
  friend class Segment;
  Reservation reservation_;
  AlignedBuffer buffer_;
  std::vector<QueryRows> rows_;  // By kv head; into buffer_.
};

// Keys or values of one kv head, in memory as long as this lives. As LayerQueries, they are not
// kept for others.
class HeadRows {
 public:
  HeadRows() = default;
  // Views rows that somebody else keeps.
  explicit HeadRows(const std::byte* data) : data_(data) {}
  explicit HeadRows(AlignedBuffer buffer) : buffer_(std::move(buffer)), data_(buffer_.data()) {}

  // [tokens that were asked for], each KRowBytes or VRowBytes long.
  const std::byte* data() const { return data_; }

 private:
  friend class Segment;
  Reservation reservation_;
  AlignedBuffer buffer_;
  const std::byte* data_ = nullptr;  // Points into buffer_, if that holds the rows.
};

class KvRun {
 public:
  virtual ~KvRun() = default;

  // No two runs that a process has open at the same time have the same id.
  virtual uint64_t id() const = 0;
  virtual uint64_t num_tokens() const = 0;
  virtual int64_t first_position() const = 0;
  // True for a segment, false for a block of a session's tail.
  virtual bool is_sealed() const = 0;
  virtual const KvShape& shape() const = 0;

  // Whether K or V of the head holds NaN or Inf. REQUIRES: layer and kv_head exist.
  virtual bool non_finite(LayerId layer, uint32_t kv_head) const = 0;
  // Reads the rows of all tokens of a head. REQUIRES: layer and kv_head exist.
  virtual Result<HeadRows> ReadRows(LayerId layer, uint32_t kv_head, RowPart part) const = 0;
  // Reads the sampled queries of all heads of a layer. REQUIRES: layer exists.
  virtual Result<LayerQueries> ReadQueries(LayerId layer) const = 0;
};

}  // namespace attndb::storage

#endif  // ATTNDB_STORAGE_KV_KV_RUN_H_
