#include "store/beginning_source.h"

#include <utility>

namespace attndb::store {

Status BeginningSource::LoadLayer(LayerId layer) {
  ATTNDB_RETURN_IF_ERROR(tail_->LoadLayer(layer));
  keys_.clear();
  values_.clear();
  pin_.reset();
  storage::Segment& segment = *beginning_.segment;
  const TokenRange used = {0, beginning_.num_tokens_used};
  // Rows in memory need no file, which may be lost.
  if (segment.IsInMemory(layer)) {
    ATTNDB_ASSIGN_OR_RETURN(pin_, segment.PinLayer(layer, used.end));
    return Status::Ok();
  }
  for (uint32_t head = 0; head < segment.shape().layers[layer].num_kv_heads; ++head) {
    ATTNDB_ASSIGN_OR_RETURN(storage::HeadRows keys,
                            segment.ReadRows(layer, head, storage::RowPart::kKeys, used));
    ATTNDB_ASSIGN_OR_RETURN(storage::HeadRows values,
                            segment.ReadRows(layer, head, storage::RowPart::kValues, used));
    keys_.push_back(std::move(keys));
    values_.push_back(std::move(values));
  }
  return Status::Ok();
}

std::span<const storage::KvRows> BeginningSource::rows(uint32_t kv_head) {
  rows_ = {pin_ ? pin_->rows(kv_head)
                : storage::KvRows{keys_[kv_head].data(), values_[kv_head].data(), 0}};
  rows_.front().num_tokens = beginning_.num_tokens_used;
  const std::span<const storage::KvRows> tail = tail_->rows(kv_head);
  rows_.insert(rows_.end(), tail.begin(), tail.end());
  return rows_;
}

std::span<const storage::QueryRows> BeginningSource::queries(uint32_t kv_head) {
  const std::span<const storage::QueryRows> tail = tail_->queries(kv_head);
  queries_.assign(tail.begin(), tail.end());
  query_tokens_.clear();
  for (storage::QueryRows& rows : queries_) {
    std::vector<uint32_t>& tokens = query_tokens_.emplace_back();
    for (const uint32_t token : rows.tokens) {
      tokens.push_back(token + static_cast<uint32_t>(beginning_.num_tokens_used));
    }
    rows.tokens = tokens;
  }
  return queries_;
}

}  // namespace attndb::store
