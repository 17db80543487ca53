#include "index/fair_share.h"

#include <algorithm>
#include <cmath>

#include "common/infinity.h"
#include "kernels/select.h"
#include "kernels/weights.h"

namespace attndb::index {

FairShare::FairShare(const IndexCall& call, size_t max_items, SearchScratch* scratch)
    : call_(call),
      best_(scratch->Take<float>(call.num_q_rows)),
      fed_(scratch->Take<uint8_t>(call.num_q_rows)),
      weights_(scratch->Take<float>(max_items)),
      share_(scratch->Take<uint32_t>(max_items + kernels::kSelectSlack)) {}

size_t FairShare::NumRows() const {
  const auto has_say = [](float best) { return std::isfinite(best); };
  return static_cast<size_t>(std::count_if(best_, best_ + call_.num_q_rows, has_say));
}

double FairShare::Weigh(size_t row, const float* scores, std::span<const uint32_t> list) {
  const kernels::LogitSpec& logit = call_.spec.logit;
  for (size_t i = 0; i < list.size(); ++i) weights_[i] = scores[list[i]];
  kernels::ExpWeights(weights_, list.size(), logit, kernels::LogitOf(best_[row], logit), weights_);
  return double{kernels::SumNotBelow(weights_, list.size(), 0)};
}

size_t FairShare::FindMissed(size_t row, const RatedItems& items,
                             std::span<const uint32_t> selected, void* select_scratch) {
  if (fed_[row] != 0 || !std::isfinite(best_[row])) return 0;
  const size_t share = ShareOf(selected);
  const kernels::LogitSpec& logit = call_.spec.logit;
  const double best_logit = double{kernels::LogitOf(best_[row], logit)};
  const float known = call_.best == nullptr ? -kInfinity : call_.best[row];
  // A soft cap would give even -inf some weight.
  const double fixed =
      known > -kInfinity ? std::exp(double{kernels::LogitOf(known, logit)} - best_logit) : 0.0;
  const float* const scores = items.scores + row * items.count;
  const double held = fixed + Weigh(row, scores, selected);
  if (items.is_margin) {
    float least = kInfinity;
    for (const uint32_t item : selected) least = std::min(least, items.worth[item]);
    const float most = best_[row] + least;  // No item that is not selected scores more.
    size_t num_own = 0;
    for (const uint32_t item : selected) num_own += static_cast<size_t>(scores[item] >= most);
    const auto missing = static_cast<double>(share - std::min(share, num_own));
    const double weight = std::exp(double{kernels::LogitOf(most, logit)} - best_logit);
    if (held >= kLeastHeld * (held + missing * weight)) return 0;
  }
  const size_t count = kernels::SelectTopK(scores, items.count, share, share_, select_scratch);
  return held < kLeastHeld * (fixed + Weigh(row, scores, {share_, count})) ? count : 0;
}

bool FairShare::Feed(const RatedItems& items, std::span<const uint32_t> selected,
                     void* select_scratch) {
  if (NumRows() < 2 || selected.empty() || selected.size() == items.count) return false;
  if ((num_fed_ + 1) * ShareOf(selected) > selected.size()) return false;
  for (size_t row = 0; row < call_.num_q_rows; ++row) {
    const size_t count = FindMissed(row, items, selected, select_scratch);
    if (count == 0) continue;
    const float* const scores = items.scores + row * items.count;
    for (size_t i = 0; i < count; ++i) {
      if (scores[share_[i]] > -kInfinity) items.worth[share_[i]] = kInfinity;
    }
    fed_[row] = 1;
    ++num_fed_;
    return true;
  }
  return false;
}

}  // namespace attndb::index
