// A source for one new segment: some consecutive tokens of another source. A Store that writes a
// session's tail as several segments, or a part of it alone, uses it.
//
// Errors:  those of the whole source.
// Threads: one thread. Parts of one source are written one after another.
#ifndef ATTNDB_STORE_PART_SOURCE_H_
#define ATTNDB_STORE_PART_SOURCE_H_

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "attndb/types.h"
#include "storage/kv/segment_writer.h"

namespace attndb::store {

class PartSource final : public storage::SegmentSource {
 public:
  // `part`: tokens of the whole source. REQUIRES: it is not empty, and the source has these tokens.
  PartSource(std::shared_ptr<storage::SegmentSource> whole, storage::KvShape shape, TokenRange part)
      : whole_(std::move(whole)), shape_(std::move(shape)), part_(part) {}

  std::span<const TokenId> tokens() const override {
    return whole_->tokens().subspan(part_.begin, part_.end - part_.begin);
  }
  Status LoadLayer(LayerId layer) override {
    layer_ = layer;
    return whole_->LoadLayer(layer);
  }
  std::span<const storage::KvRows> rows(uint32_t kv_head) override;
  std::span<const storage::QueryRows> queries(uint32_t kv_head) override;

 private:
  const std::shared_ptr<storage::SegmentSource> whole_;
  const storage::KvShape shape_;
  const TokenRange part_;
  LayerId layer_ = 0;
  std::vector<storage::KvRows> rows_;
  std::vector<storage::QueryRows> queries_;
  std::vector<std::vector<uint32_t>> query_tokens_;
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_PART_SOURCE_H_
