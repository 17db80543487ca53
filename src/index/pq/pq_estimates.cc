#include "index/pq/pq_estimates.h"

#include <cmath>

#include "common/infinity.h"
#include "index/pq/pq_index.h"
#include "kernels/score.h"
#include "kernels/select.h"

namespace attndb::index {
namespace {

// Errors of codes are assumed to be normal, with one deviation for all keys of a run. That does not
// hold for keys that are far longer than others. A search by mass scores the keys of a block
// exactly if one of them may be off by this many deviations; other searches do so at
// PqKeys::kMostDeviations.
constexpr float kMassDeviations = 2.5f;

const PqKeys& CodesOf(const IndexRun& run) {
  return static_cast<const PqIndex&>(*run.index).keys();
}

}  // namespace

PqEstimates::PqEstimates(const IndexCall& call, SearchScratch* scratch, SearchCost* cost)
    : call_(call), cost_(cost), num_places_(call.num_visible()) {
  size_t query_bytes = 0;
  for (const IndexRun& run : call.runs) {
    query_bytes = std::max(query_bytes, CodesOf(run).QueryBytes(call.num_q_rows));
  }
  tables_ = scratch->Take<std::byte>(query_bytes);
  scores_ = scratch->Take<float>(call.num_q_rows * num_places_);
  outliers_ = scratch->Take<uint8_t>(num_places_);
  errors_ = scratch->Take<float>(call.num_q_rows * call.runs.size());
  norms_ = scratch->Take<float>(call.num_q_rows);
  places_ = scratch->Take<uint32_t>(num_places_ + kernels::kSelectSlack);
  keys_ = scratch->Take<uint32_t>(num_places_);
  tokens_ = scratch->Take<uint32_t>(num_places_);
}

void PqEstimates::Find() {
  size_t place = 0;
  for (size_t i = 0; i < call_.runs.size(); ++i) {
    const IndexRun& run = call_.runs[i];
    const size_t count = run.count();
    if (count == 0) continue;
    const PqKeys& keys = CodesOf(run);
    const PqQueries queries = keys.Prepare(call_.q, call_.q_stride, call_.num_q_rows, tables_);
    keys.Scan(queries, run.first_visible, count, scores_ + place, num_places_);
    for (size_t r = 0; r < call_.num_q_rows; ++r) {
      const float rounding = queries.rows[r].rounding_deviation;
      const float error = std::hypot(keys.ScoreError(queries.norms[r]), rounding);
      errors_[r * call_.runs.size() + i] = error;
      norms_[r] = queries.norms[r];
      if (std::isfinite(error)) margin_ = std::max(margin_, error);
    }
    MarkOutliers(i, place);
    place += count;
    cost_->bytes_touched += static_cast<uint64_t>(static_cast<double>(count) * keys.ScanBytes());
  }
  cost_->keys_scored += num_places_ * call_.num_q_rows;
}

float PqEstimates::MostOff(size_t row, size_t run, size_t block) const {
  const float spread = std::sqrt(static_cast<float>(call_.num_channels()));
  return norms_[row] * CodesOf(call_.runs[run]).residuals()[block] / spread;
}

void PqEstimates::MarkOutliers(size_t run_idx, size_t first_place) {
  const IndexRun& run = call_.runs[run_idx];
  uint8_t* const outliers = outliers_ + first_place;
  std::fill_n(outliers, run.count(), uint8_t{0});
  if (!IsMass() && !CodesOf(run).has_outliers()) return;
  const float deviations = IsMass() ? kMassDeviations : PqKeys::kMostDeviations;
  float most = kInfinity;  // The largest usual norm of a key's residual.
  for (size_t r = 0; r < call_.num_q_rows; ++r) {
    most = std::min(most, deviations * ErrorOf(r, run_idx) / norms_[r]);
  }
  most *= std::sqrt(static_cast<float>(call_.num_channels()));
  const float* const residuals = CodesOf(run).residuals();
  ForEachBlock(run, [&](size_t block, size_t begin, size_t end) {
    if (!(residuals[block] > most)) return;
    std::fill_n(outliers + (begin - run.first_visible), end - begin, uint8_t{1});
    num_outliers_ += end - begin;
  });
}

Status PqEstimates::ScoreSelected(float* exact) {
  storage::RowLease& rows = *call_.rows;
  rows.Clear();
  size_t first_place = 0;
  size_t begin = 0;
  for (const IndexRun& run : call_.runs) {
    const size_t end_place = first_place + run.count();
    size_t end = begin;
    for (; end < num_selected_ && places_[end] < end_place; ++end) {
      keys_[end] = static_cast<uint32_t>(run.first_visible + places_[end] - first_place);
      tokens_[end] = run.first_token + keys_[end];
    }
    rows.RequestListed(run.strip, keys_ + begin, end - begin);
    begin = end;
    first_place = end_place;
  }
  ATTNDB_RETURN_IF_ERROR(rows.Read());
  begin = 0;
  for (size_t i = 0; i < call_.runs.size(); ++i) {
    const storage::ListedRows listed = rows.Listed(i);
    const size_t count = rows.requests()[i].count;
    kernels::ScoreGather(listed.rows, listed.list, count, call_.q, call_.q_stride, call_.num_q_rows,
                         exact + begin, num_places_);
    begin += count;
  }
  cost_->rows_read += num_selected_;
  cost_->bytes_touched +=
      num_selected_ * call_.num_channels() * DTypeBytes(call_.runs[0].keys.dtype);
  return Status::Ok();
}

}  // namespace attndb::index
