// The first tokens of a segment and what follows them, as the contents of one new segment: where a
// context shares less than is worth a segment that it would keep as a whole.
//
// Queries: those of the segment's tokens are left out; the sample is that of what follows.
// Errors:  those of reading the segment, of which only these tokens are read, and none that are in
//          memory; those of the tail.
// Threads: one thread.
#ifndef ATTNDB_STORE_BEGINNING_SOURCE_H_
#define ATTNDB_STORE_BEGINNING_SOURCE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "attndb/types.h"
#include "storage/kv/chain_entry.h"
#include "storage/kv/kv_run.h"
#include "storage/kv/segment_writer.h"

namespace attndb::store {

class BeginningSource final : public storage::SegmentSource {
 public:
  // `tokens`: those that are used of the segment, and those of the tail.
  BeginningSource(storage::ChainEntry beginning, std::shared_ptr<storage::SegmentSource> tail,
                  std::vector<TokenId> tokens)
      : beginning_(std::move(beginning)), tail_(std::move(tail)), tokens_(std::move(tokens)) {}

  std::span<const TokenId> tokens() const override { return tokens_; }
  Status LoadLayer(LayerId layer) override;
  std::span<const storage::KvRows> rows(uint32_t kv_head) override;
  std::span<const storage::QueryRows> queries(uint32_t kv_head) override;

 private:
  const storage::ChainEntry beginning_;
  const std::shared_ptr<storage::SegmentSource> tail_;
  const std::vector<TokenId> tokens_;
  std::optional<storage::LayerPin> pin_;   // The layer, where it was in memory. Else:
  std::vector<storage::HeadRows> keys_;    // Those of the beginning, by kv head.
  std::vector<storage::HeadRows> values_;  // Likewise.
  std::vector<storage::KvRows> rows_;
  std::vector<storage::QueryRows> queries_;
  std::vector<std::vector<uint32_t>> query_tokens_;
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_BEGINNING_SOURCE_H_
