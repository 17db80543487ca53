#include "index/pq/pq_index.h"

#include <algorithm>
#include <cmath>

#include "common/checked_math.h"
#include "common/infinity.h"
#include "index/fair_share.h"
#include "index/pq/pq_estimates.h"
#include "index/pq/pq_mass_search.h"
#include "index/search_scratch.h"
#include "kernels/select.h"
#include "kernels/weights.h"

namespace attndb::index {
namespace {

constexpr size_t kAlignment = 64;

// Weights are at most exp(kMostNats): the largest representable score is far above actual scores,
// and words reach as far below 1 as above it.
constexpr float kMostNats = 60;

// One search for the best keys or for a range.
class PqSearch {
 public:
  // Null scratch: measures.
  PqSearch(const IndexCall& call, void* scratch, SearchCost* cost)
      : call_(call),
        scratch_(scratch),
        estimates_(call, &scratch_, cost),
        num_places_(estimates_.num_places()),
        effort_(call.spec.effort > 0 ? call.spec.effort : 1.0f),
        fair_(call, IsRange() ? 0 : num_places_, &scratch_) {
    worth_ = scratch_.Take<float>(num_places_);
    select_ = scratch_.Take<std::byte>(kernels::SelectTopKScratchBytes(num_places_));
  }

  size_t scratch_bytes() const { return scratch_.num_bytes(); }

  Status Run(FoundKeys* found) {
    for (size_t r = 0; r < call_.num_q_rows; ++r) found[r].count = 0;
    if (num_places_ == 0) return Status::Ok();
    estimates_.Find();
    Select();
    // Exact scores take the place of estimates.
    ATTNDB_RETURN_IF_ERROR(estimates_.ScoreSelected(estimates_.scores(0)));
    for (size_t r = 0; r < call_.num_q_rows; ++r) Choose(r, &found[r]);
    return Status::Ok();
  }

 private:
  bool IsRange() const { return call_.spec.kind == SearchKind::kRange; }

  // The places of most worth to any row; for a range, those that may lie in it; and those of
  // unknown worth. A non-finite row does not count.
  void Select() {
    std::fill_n(worth_, num_places_, -kInfinity);
    for (size_t r = 0; r < call_.num_q_rows; ++r) {
      const float* const scores = estimates_.scores(r);
      const float best = std::max(kernels::MaxScore(scores, num_places_), call_.best[r]);
      fair_.SetBest(r, best);
      if (!std::isfinite(best)) continue;
      for (size_t i = 0; i < num_places_; ++i) {
        worth_[i] = std::max(worth_[i], scores[i] - best);
      }
    }
    size_t num_more = 0;
    if (estimates_.num_outliers() > 0 && estimates_.HasFewOutliers()) {
      for (size_t i = 0; i < num_places_; ++i) {
        worth_[i] = estimates_.IsOutlier(i) ? kInfinity : worth_[i];
      }
      num_more = estimates_.num_outliers();
    }
    uint32_t* const places = estimates_.places();
    if (IsRange()) {
      // The best estimate errs upwards as much as others err downwards.
      const float floor = -(call_.spec.beta + 2 * effort_ * estimates_.margin());
      estimates_.set_num_selected(kernels::SelectRange(worth_, num_places_, floor, places));
      return;
    }
    const double wanted =
        std::ceil(static_cast<double>(effort_) * call_.spec.k) + static_cast<double>(num_more);
    const auto count = static_cast<size_t>(std::min(wanted, static_cast<double>(num_places_)));
    const RatedItems items = {estimates_.scores(0), num_places_, worth_, /*is_margin=*/true};
    size_t num_selected = kernels::SelectTopK(worth_, num_places_, count, places, select_);
    while (fair_.Feed(items, {places, num_selected}, select_)) {
      num_selected = fair_.SelectAgain(items, num_selected, places, select_);
    }
    estimates_.set_num_selected(num_selected);
  }

  // Gives the row its result among the selected keys.
  void Choose(size_t row, FoundKeys* found) {
    const float* const exact = estimates_.scores(row);
    const size_t num_selected = estimates_.num_selected();
    uint32_t* const chosen = estimates_.places();  // The places themselves are no longer needed.
    size_t count = 0;
    if (IsRange()) {
      const float best = std::max(kernels::MaxScore(exact, num_selected), call_.best[row]);
      count = kernels::SelectRange(exact, num_selected, best - call_.spec.beta, chosen);
    } else {
      count = kernels::SelectTopK(exact, num_selected, call_.spec.k, chosen, select_);
    }
    for (size_t i = 0; i < count; ++i) {
      found->tokens[i] = estimates_.tokens()[chosen[i]];
      found->scores[i] = exact[chosen[i]];
    }
    found->count = count;
  }

  const IndexCall& call_;
  SearchScratch scratch_;
  PqEstimates estimates_;
  const size_t num_places_;
  const float effort_;
  FairShare fair_;
  float* worth_ = nullptr;       // [place]
  std::byte* select_ = nullptr;  // Scratch of kernels::SelectTopK.
};

}  // namespace

size_t PqIndex::ScratchBytes(const IndexCall& call) const {
  return call.spec.kind == SearchKind::kMass ? PqMassSearch(call, nullptr, nullptr).scratch_bytes()
                                             : PqSearch(call, nullptr, nullptr).scratch_bytes();
}

Status PqIndex::Search(const IndexCall& call, void* scratch, FoundKeys* found,
                       SearchCost* cost) const {
  if (call.spec.kind == SearchKind::kMass) return PqMassSearch(call, scratch, cost).Run(found);
  return PqSearch(call, scratch, cost).Run(found);
}

// Tables and norms, and one map a row.
size_t PqIndex::WeighScratchBytes(size_t num_q_rows) const {
  return RoundUp(keys_.QueryBytes(num_q_rows), kAlignment) +
         num_q_rows * sizeof(kernels::WeightRow);
}

void PqIndex::Weigh(const WeighCall& call, void* scratch) const {
  auto* const memory = static_cast<std::byte*>(scratch);
  const PqQueries queries = keys_.Prepare(call.q, call.q_stride, call.num_q_rows, memory);
  auto* const maps = reinterpret_cast<kernels::WeightRow*>(
      memory + RoundUp(keys_.QueryBytes(call.num_q_rows), kAlignment));
  for (size_t r = 0; r < call.num_q_rows; ++r) {
    const kernels::TableRow& row = queries.rows[r];
    call.references[r] = call.logit_scale * row.max_score - kMostNats;
    maps[r] = kernels::MapWeights(row, call.logit_scale, call.references[r]);
  }
  keys_.Weigh(queries, {maps, call.num_q_rows}, call.first_key, call.num_keys,
              {.weights = call.words,
               .weights_stride = call.words_stride,
               .sums = call.sums,
               .sums_stride = call.sums_stride});
}

}  // namespace attndb::index
