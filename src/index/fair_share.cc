#include "index/fair_share.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "common/infinity.h"
#include "kernels/select.h"
#include "kernels/weights.h"

namespace attndb::index {

FairShare::FairShare(const IndexCall& call, size_t max_items, SearchScratch* scratch)
    : call_(call),
      best_(scratch->Take<float>(call.num_q_rows)),
      fed_(scratch->Take<uint8_t>(call.num_q_rows)),
      share_sizes_(scratch->Take<size_t>(call.num_q_rows)),
      share_weights_(scratch->Take<double>(call.num_q_rows)),
      weights_(scratch->Take<float>(max_items)),
      share_(scratch->Take<uint32_t>(max_items + kernels::kSelectSlack)),
      either_(scratch->Take<uint32_t>(max_items)) {}

size_t FairShare::NumRows() const {
  const auto has_say = [](float best) { return std::isfinite(best); };
  return static_cast<size_t>(std::count_if(best_, best_ + call_.num_q_rows, has_say));
}

double FairShare::Weigh(size_t row, size_t count) {
  const kernels::LogitSpec& logit = call_.spec.logit;
  kernels::ExpWeights(weights_, count, logit, kernels::LogitOf(best_[row], logit), weights_);
  return double{kernels::SumNotBelow(weights_, count, 0)};
}

void FairShare::Gather(const float* scores, std::span<const uint32_t> list) {
  for (size_t i = 0; i < list.size(); ++i) weights_[i] = scores[list[i]];
}

size_t FairShare::MostMissing(size_t row, size_t share, const RatedItems& items,
                              std::span<const uint32_t> selected, float* most) {
  const float* const scores = items.scores + row * items.count;
  const auto count_from = [](const float* values, size_t count, float least) {
    size_t found = 0;
    for (size_t i = 0; i < count; ++i) found += static_cast<size_t>(values[i] >= least);
    return found;
  };
  if (items.is_margin) {
    *most = best_[row] + least_;  // No item that is not selected scores more.
    return share - std::min(share, count_from(weights_, selected.size(), *most));
  }
  *most = best_[row];
  std::nth_element(weights_, weights_ + (share - 1), weights_ + selected.size(), std::greater<>());
  return count_from(scores, items.count, weights_[share - 1]) > share ? share : 0;
}

size_t FairShare::FindMissed(size_t row, const RatedItems& items,
                             std::span<const uint32_t> selected, void* select_scratch) {
  if (fed_[row] != 0 || !std::isfinite(best_[row])) return 0;
  const size_t share = ShareOf(selected);
  const float* const scores = items.scores + row * items.count;
  Gather(scores, selected);
  float most = 0;
  const size_t missing = MostMissing(row, share, items, selected, &most);
  if (missing == 0) return 0;
  const kernels::LogitSpec& logit = call_.spec.logit;
  const double best_logit = double{kernels::LogitOf(best_[row], logit)};
  const float known = call_.best == nullptr ? -kInfinity : call_.best[row];
  // A soft cap would give even -inf some weight.
  const double fixed =
      known > -kInfinity ? std::exp(double{kernels::LogitOf(known, logit)} - best_logit) : 0.0;
  const double held = fixed + Weigh(row, selected.size());
  const double weight = std::exp(double{kernels::LogitOf(most, logit)} - best_logit);
  if (held >= kLeastHeld * (held + static_cast<double>(missing) * weight)) return 0;
  // The weight that is kept belongs to a share of the same size.
  if (share_sizes_[row] == share && held >= kLeastHeld * share_weights_[row]) return 0;
  const size_t count = kernels::SelectTopK(scores, items.count, share, share_, select_scratch);
  Gather(scores, {share_, count});
  share_sizes_[row] = share;
  share_weights_[row] = fixed + Weigh(row, count);
  return held < kLeastHeld * share_weights_[row] ? count : 0;
}

bool FairShare::Feed(const RatedItems& items, std::span<const uint32_t> selected,
                     void* select_scratch) {
  if (NumRows() < 2 || selected.empty() || selected.size() == items.count) return false;
  if ((num_fed_ + 1) * ShareOf(selected) > selected.size()) return false;
  least_ = kInfinity;
  for (const uint32_t item : selected) least_ = std::min(least_, items.worth[item]);
  for (size_t row = 0; row < call_.num_q_rows; ++row) {
    const size_t count = FindMissed(row, items, selected, select_scratch);
    if (count == 0) continue;
    const float* const scores = items.scores + row * items.count;
    for (size_t i = 0; i < count; ++i) {
      if (scores[share_[i]] > -kInfinity) items.worth[share_[i]] = kInfinity;
    }
    fed_[row] = 1;
    ++num_fed_;
    num_share_ = count;
    return true;
  }
  return false;
}

size_t FairShare::SelectAgain(const RatedItems& items, size_t count, uint32_t* selected,
                              void* select_scratch) {
  const uint32_t* const end =
      std::set_union(selected, selected + count, share_, share_ + num_share_, either_);
  const auto num_either = static_cast<size_t>(end - either_);
  for (size_t i = 0; i < num_either; ++i) weights_[i] = items.worth[either_[i]];
  const size_t num_selected =
      kernels::SelectTopK(weights_, num_either, count, selected, select_scratch);
  for (size_t i = 0; i < num_selected; ++i) selected[i] = either_[selected[i]];
  return num_selected;
}

}  // namespace attndb::index
