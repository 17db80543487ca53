// A session's tail at one moment, as a source for a new segment. Later appends and crops of the
// tail do not change it.
//
// Memory:  shares the tail's blocks and copies none. The tail copies the block that it writes to
//          next (kv_tail.h).
// Threads: one thread at a time, not necessarily the session's.
#ifndef ATTNDB_STORAGE_KV_TAIL_SNAPSHOT_H_
#define ATTNDB_STORAGE_KV_TAIL_SNAPSHOT_H_

#include <span>
#include <utility>
#include <vector>

#include "storage/kv/kv_tail.h"
#include "storage/kv/query_rows.h"
#include "storage/kv/segment_writer.h"

namespace attndb::storage {

class TailSnapshot final : public SegmentSource {
 public:
  // Sampled rows of q, by layer and kv head, in pieces that follow each other.
  using Queries = std::vector<std::vector<std::vector<SharedQueries>>>;

  // `tail` is a fork of the session's; `tokens` are its token ids.
  TailSnapshot(KvTail tail, std::vector<TokenId> tokens, Queries queries)
      : tail_(std::move(tail)), tokens_(std::move(tokens)), queries_(std::move(queries)) {}

  std::span<const TokenId> tokens() const override { return tokens_; }
  Status LoadLayer(LayerId layer) override {
    layer_ = layer;
    return Status::Ok();
  }
  std::span<const KvRows> rows(uint32_t kv_head) override { return tail_.runs(layer_, kv_head); }
  std::span<const QueryRows> queries(uint32_t kv_head) override {
    pieces_.clear();
    for (const SharedQueries& piece : queries_[layer_][kv_head]) pieces_.push_back(piece.rows());
    return pieces_;
  }

 private:
  const KvTail tail_;
  const std::vector<TokenId> tokens_;
  const Queries queries_;
  LayerId layer_ = 0;
  std::vector<QueryRows> pieces_;  // The last result of queries().
};

}  // namespace attndb::storage

#endif  // ATTNDB_STORAGE_KV_TAIL_SNAPSHOT_H_
