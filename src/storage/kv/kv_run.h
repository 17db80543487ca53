// A run of tokens whose K and V do not change any more: what derived objects are made from. A
// sealed segment (segment.h) is one, and so is a block of a session's tail (tail_block.h).
//
// Errors:  those of reading a segment; a block of a tail has none, and no sampled queries.
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

// Keys or values of one kv head, in memory as long as this lives. Not kept resident, as
// LayerQueries.
class HeadRows {
 public:
  HeadRows() = default;
  // Of rows that somebody else keeps.
  explicit HeadRows(const std::byte* data) : data_(data) {}

  // [tokens that were asked for, KRowBytes or VRowBytes].
  const std::byte* data() const { return data_; }

 private:
  friend class Segment;
  Reservation reservation_;
  AlignedBuffer buffer_;
  const std::byte* data_ = nullptr;  // Into buffer_, if that holds any.
};

class KvRun {
 public:
  virtual ~KvRun() = default;

  // No two runs of a process that are open at the same time have the same.
  virtual uint64_t id() const = 0;
  virtual uint64_t num_tokens() const = 0;
  virtual int64_t first_position() const = 0;
  // Whether it is a segment, and no block of a session's tail.
  virtual bool is_sealed() const = 0;
  virtual const KvShape& shape() const = 0;

  // Whether K or V of the head holds NaN or Inf. REQUIRES: layer and kv_head exist.
  virtual bool non_finite(LayerId layer, uint32_t kv_head) const = 0;
  // All tokens of a head. REQUIRES: layer and kv_head exist.
  virtual Result<HeadRows> ReadRows(LayerId layer, uint32_t kv_head, RowPart part) const = 0;
  // REQUIRES: layer exists.
  virtual Result<LayerQueries> ReadQueries(LayerId layer) const = 0;
};

}  // namespace attndb::storage

#endif  // ATTNDB_STORAGE_KV_KV_RUN_H_
