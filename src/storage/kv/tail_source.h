// A session's tail as the contents of a new segment.
//
// Threads: one thread; the tail must not change meanwhile.
#ifndef ATTNDB_STORAGE_KV_TAIL_SOURCE_H_
#define ATTNDB_STORAGE_KV_TAIL_SOURCE_H_

#include <span>
#include <utility>
#include <vector>

#include "storage/kv/kv_tail.h"
#include "storage/kv/segment_writer.h"

namespace attndb::storage {

class TailSource final : public SegmentSource {
 public:
  // `tokens` are the tail's; `queries` are [layer][kv head]. What they view, and the tail, must
  // outlive the source.
  TailSource(const KvTail* tail, std::span<const TokenId> tokens,
             std::vector<std::vector<QueryRows>> queries)
      : tail_(tail), tokens_(tokens), queries_(std::move(queries)) {}

  std::span<const TokenId> tokens() const override { return tokens_; }
  Status LoadLayer(LayerId layer) override {
    layer_ = layer;
    return Status::Ok();
  }
  std::span<const KvRows> rows(uint32_t kv_head) override { return tail_->runs(layer_, kv_head); }
  std::span<const QueryRows> queries(uint32_t kv_head) override {
    return std::span(queries_[layer_]).subspan(kv_head, 1);
  }

 private:
  const KvTail* const tail_;
  const std::span<const TokenId> tokens_;
  const std::vector<std::vector<QueryRows>> queries_;
  LayerId layer_ = 0;
};

}  // namespace attndb::storage

#endif  // ATTNDB_STORAGE_KV_TAIL_SOURCE_H_
