// A source for one new segment: the first tokens of an existing segment, and a tail behind them. A
// Store uses it if the context shares so few tokens that keeping the whole old segment is not worth
// it.
//
// Queries: only those of the tail; the sample of the segment's tokens is left out.
// Errors:  those of reading the segment, and those of the tail. Reads only the first tokens of the
//          segment, and nothing that is in memory already.
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
  // `tokens`: the used tokens of the segment, followed by those of the tail.
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
  std::optional<storage::LayerPin> pin_;  // The layer, if it was in memory. Else keys_ and values_:
  std::vector<storage::HeadRows> keys_;   // Keys of the beginning, by kv head.
  std::vector<storage::HeadRows> values_;  // Values of the beginning, by kv head.
  std::vector<storage::KvRows> rows_;
  std::vector<storage::QueryRows> queries_;
  std::vector<std::vector<uint32_t>> query_tokens_;
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_BEGINNING_SOURCE_H_
