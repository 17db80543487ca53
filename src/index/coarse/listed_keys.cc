#include "index/coarse/listed_keys.h"

#include <algorithm>
#include <cmath>

#include "attndb/result.h"
#include "kernels/score.h"
#include "kernels/select.h"

namespace attndb::index {

size_t NumWanted(const SearchSpec& spec, size_t num_keys) {
  const double effort = spec.effort > 0 ? double{spec.effort} : 1.0;
  const double wanted = std::ceil(effort * spec.k);
  return wanted >= static_cast<double>(num_keys) ? num_keys : static_cast<size_t>(wanted);
}

ListedKeys::ListedKeys(const IndexCall& call, size_t max_keys, SearchScratch* scratch)
    : call_(call),
      max_keys_(max_keys),
      counts_(scratch->Take<size_t>(call.runs.size())),
      keys_(scratch->Take<uint32_t>(max_keys)),
      tokens_(scratch->Take<uint32_t>(max_keys)),
      exact_(scratch->Take<float>(call.num_q_rows * max_keys)),
      chosen_(scratch->Take<uint32_t>(max_keys + kernels::kSelectSlack)),
      select_(scratch->Take<std::byte>(kernels::SelectTopKScratchBytes(max_keys))) {}

void ListedKeys::Clear() {
  std::fill_n(counts_, call_.runs.size(), size_t{0});
  count_ = 0;
}

Status ListedKeys::Score(SearchCost* cost) {
  storage::RowLease& rows = *call_.rows;
  rows.Clear();
  size_t begin = 0;
  for (size_t run = 0; run < call_.runs.size(); begin += counts_[run++]) {
    rows.RequestListed(call_.runs[run].strip, keys_ + begin, counts_[run]);
  }
  ATTNDB_RETURN_IF_ERROR(rows.Read());
  begin = 0;
  for (size_t run = 0; run < call_.runs.size(); begin += counts_[run++]) {
    const storage::ListedRows listed = rows.Listed(run);
    kernels::ScoreGather(listed.rows, listed.list, counts_[run], call_.q, call_.q_stride,
                         call_.num_q_rows, exact_ + begin, max_keys_);
  }
  cost->keys_scored += count_ * call_.num_q_rows;
  cost->rows_read += count_;
  cost->bytes_touched += count_ * call_.num_channels() * DTypeBytes(call_.runs[0].keys.dtype);
  return Status::Ok();
}

void ListedKeys::Choose(size_t row, FoundKeys* found) const {
  const float* const exact = exact_ + row * max_keys_;
  found->count = kernels::SelectTopK(exact, count_, call_.spec.k, chosen_, select_);
  for (size_t i = 0; i < found->count; ++i) {
    found->tokens[i] = tokens_[chosen_[i]];
    found->scores[i] = exact[chosen_[i]];
  }
}

}  // namespace attndb::index
