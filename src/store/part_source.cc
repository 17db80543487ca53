#include "store/part_source.h"

#include <algorithm>

#include "storage/kv/kv_layout.h"

namespace attndb::store {

std::span<const storage::KvRows> PartSource::rows(uint32_t kv_head) {
  const uint64_t k_bytes = storage::KRowBytes(shape_, layer_);
  const uint64_t v_bytes = storage::VRowBytes(shape_, layer_);
  rows_.clear();
  uint64_t first = 0;  // The run's first token.
  for (const storage::KvRows& run : whole_->rows(kv_head)) {
    const uint64_t begin = std::max(first, part_.begin);
    const uint64_t end = std::min(first + run.num_tokens, part_.end);
    if (begin < end) {
      const uint64_t skipped = begin - first;
      rows_.push_back({run.k + skipped * k_bytes, run.v + skipped * v_bytes, end - begin});
    }
    first += run.num_tokens;
  }
  return rows_;
}

std::span<const storage::QueryRows> PartSource::queries(uint32_t kv_head) {
  const uint64_t q_bytes = storage::KRowBytes(shape_, layer_);
  queries_.clear();
  query_tokens_.clear();
  for (const storage::QueryRows& rows : whole_->queries(kv_head)) {
    const auto from = std::ranges::lower_bound(rows.tokens, part_.begin);
    const auto to = std::ranges::lower_bound(rows.tokens, part_.end);
    if (from == to) continue;
    const auto skipped = static_cast<size_t>(from - rows.tokens.begin());
    std::vector<uint32_t>& tokens = query_tokens_.emplace_back(from, to);
    for (uint32_t& token : tokens) token -= static_cast<uint32_t>(part_.begin);
    queries_.push_back(
        {rows.q + skipped * q_bytes, {}, rows.q_heads.subspan(skipped, tokens.size())});
  }
  for (size_t i = 0; i < queries_.size(); ++i) queries_[i].tokens = query_tokens_[i];
  return queries_;
}

}  // namespace attndb::store
