#include "index/pq/pq_mass_search.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "common/infinity.h"
#include "common/lane_sum.h"
#include "common/log_sum.h"
#include "index/mass_cut.h"
#include "kernels/select.h"
#include "kernels/weights.h"

namespace attndb::index {
namespace {

// A mass is not estimated at all if the mean square error of the selected keys is this many times
// the expected one.
constexpr double kMostSpread = 4;

// Estimates of a block's keys may be off by this many deviations. Beyond, the block's mass is
// assumed to be larger than its estimate.
constexpr float kUsualDeviations = 1.5f;

// A search selects so often at most.
constexpr int kMostRounds = 5;

}  // namespace

PqMassSearch::PqMassSearch(const IndexCall& call, void* scratch, SearchCost* cost)
    : call_(call),
      cost_(cost),
      scratch_(scratch),
      estimates_(call, &scratch_, cost),
      num_places_(estimates_.num_places()) {
  worth_ = scratch_.Take<float>(num_places_);
  exact_ = scratch_.Take<float>(call.num_q_rows * num_places_);
  weights_ = scratch_.Take<float>(call.num_q_rows * num_places_);
  spare_ = scratch_.Take<float>(num_places_ + kernels::kSelectSlack);
  masses_ = scratch_.Take<RowMass>(call.num_q_rows);
}

Status PqMassSearch::Run(FoundKeys* found) {
  for (size_t r = 0; r < call_.num_q_rows; ++r) found[r].count = 0;
  if (num_places_ == 0) return Status::Ok();
  estimates_.Find();
  RaiseScores();
  ATTNDB_RETURN_IF_ERROR(Find(found));
  const size_t count = estimates_.num_selected();
  for (size_t r = 0; r < call_.num_q_rows; ++r) {
    const float* const exact = exact_ + r * num_places_;
    std::copy_n(estimates_.tokens(), count, found[r].tokens);
    std::copy_n(exact, count, found[r].scores);
    found[r].count = count;
    found[r].log_mass = AddLogs(found[r].log_mass, LogMass(exact));
  }
  return Status::Ok();
}

// So that the weights that the estimates give are right in the mean: a key lies about its
// centroids, and the mean of exp(scale * x) for normal x of deviation `error` is
// exp((scale * error)^2 / 2). (Scores by planes are lowered: there estimates lie about the key's.)
void PqMassSearch::RaiseScores() {
  size_t place = 0;
  for (size_t run = 0; run < call_.runs.size(); ++run) {
    const size_t count = call_.runs[run].count();
    if (count == 0) continue;
    for (size_t r = 0; r < call_.num_q_rows; ++r) {
      const float error = estimates_.RawErrorOf(r, run);
      if (!std::isfinite(error)) continue;
      const float shift = ShiftOf(error);
      float* const scores = estimates_.scores(r) + place;
      for (size_t i = 0; i < count; ++i) scores[i] += shift;
    }
    place += count;
  }
}

// Writes the weights of all places, relative to the weight of the row's best score.
void PqMassSearch::Weigh(size_t row) {
  const float* const scores = estimates_.scores(row);
  float* const weights = weights_ + row * num_places_;
  const float best = std::max(kernels::MaxScore(scores, num_places_), call_.best[row]);
  masses_[row].max_logit = double{kernels::LogitOf(best, call_.spec.logit)};
  kernels::ExpWeights(scores, num_places_, call_.spec.logit,
                      static_cast<float>(masses_[row].max_logit), weights);
  masses_[row].all = double{kernels::SumNotBelow(weights, num_places_, 0)};
}

// A selection by estimates looks heavier than it is, so that it may hold too little once it is
// scored: then more is selected.
Status PqMassSearch::Find(FoundKeys* found) {
  for (size_t r = 0; r < call_.num_q_rows; ++r) Weigh(r);
  const float effort = call_.spec.effort > 0 ? call_.spec.effort : 1.0f;
  double left = (1 - call_.spec.p) / double{effort};
  const bool is_sure = estimates_.HasFewOutliers();
  for (int round = 0; is_sure && round < kMostRounds; ++round, left /= 2) {
    Select(1 - left);
    ATTNDB_RETURN_IF_ERROR(estimates_.ScoreSelected(exact_));
    bool holds = true;
    bool is_normal = true;
    for (size_t r = 0; r < call_.num_q_rows; ++r) {
      const double fixed = call_.log_fixed[r];
      const double selected = AddLogs(fixed, LogMass(exact_ + r * num_places_));
      found[r].log_mass = LogMassLeft(r);
      const double share = std::exp(selected - AddLogs(selected, found[r].log_mass));
      holds = holds && !(share < call_.spec.p);  // NaN: of a row that has no say.
      const double least =
          std::exp(selected - AddLogs(selected, LogMostLeft(r, found[r].log_mass)));
      holds = holds && !(least < LeastAudited(call_.spec.p));
      is_normal = is_normal && ErrorsAreNormal(r);
    }
    if (!is_normal) break;
    if (holds) return Status::Ok();
  }
  return SelectAll(found);
}

Status PqMassSearch::SelectAll(FoundKeys* found) {
  estimates_.set_num_selected(num_places_);
  std::iota(estimates_.places(), estimates_.places() + num_places_, 0u);
  ATTNDB_RETURN_IF_ERROR(estimates_.ScoreSelected(exact_));
  for (size_t r = 0; r < call_.num_q_rows; ++r) found[r].log_mass = -double{kInfinity};
  cost_->full_scans += call_.runs.size();
  return Status::Ok();
}

// Selects the places that some row needs for a share of its mass, by estimates. A row that is not
// finite has no say.
void PqMassSearch::Select(double p) {
  for (size_t i = 0; i < num_places_; ++i) worth_[i] = estimates_.IsOutlier(i) ? 1.0f : -1.0f;
  for (size_t r = 0; r < call_.num_q_rows; ++r) {
    const float* const weights = WeightsOf(r);
    const double all = masses_[r].all;
    const double fixed = std::exp(call_.log_fixed[r] - masses_[r].max_logit);
    const double need = p * (fixed + all) - fixed;
    if (!(need > 0)) continue;
    // All up to this weight together may be left out.
    const auto light = static_cast<float>(0.999 * (all - need) / static_cast<double>(num_places_));
    const size_t num_heavy =
        kernels::TakeNotBelow(weights, num_places_, std::nextafter(light, kInfinity), spare_);
    const MassCut cut = FindMassCut(spare_, num_heavy, need);
    for (size_t i = 0; i < num_places_; ++i) {
      worth_[i] = weights[i] >= cut.least ? 1.0f : worth_[i];
    }
  }
  estimates_.set_num_selected(kernels::SelectRange(worth_, num_places_, 0, estimates_.places()));
}

// The log of the mass of a row's exact scores.
double PqMassSearch::LogMass(const float* exact) const {
  return LogMassOf(exact, estimates_.num_selected(), call_.spec.logit, spare_);
}

// The log of the mass of unselected keys, by estimates.
double PqMassSearch::LogMassLeft(size_t row) const {
  const float* const weights = WeightsOf(row);
  const uint32_t* const places = estimates_.places();
  const auto selected = LaneSum<double>(estimates_.num_selected(),
                                        [&](size_t i) { return double{weights[places[i]]}; });
  return masses_[row].max_logit + std::log(std::max(masses_[row].all - selected, 0.0));
}

// The same, raised where keys of a block may be off by more than usual.
double PqMassSearch::LogMostLeft(size_t row, double log_left) const {
  const double scale = double{call_.spec.logit.scale};
  double raised = static_cast<double>(num_places_) * kernels::kLostWeight;
  size_t first_place = 0;
  for (size_t run = 0; run < call_.runs.size(); ++run) {
    const double error = double{estimates_.ErrorOf(row, run)};
    const double most_usual = kUsualDeviations * error;
    const size_t first_key = call_.runs[run].first_visible;
    PqEstimates::ForEachBlock(call_.runs[run], [&](size_t block, size_t begin, size_t end) {
      const double most = double{estimates_.MostOff(row, run, block)};
      if (most <= most_usual) return;
      const size_t place = first_place + (begin - first_key);
      const double lift = scale * scale * (most * most - error * error / 2);
      const double left = WeightLeft(row, place, place + (end - begin));
      raised += (left + kernels::kCodeKeys * kernels::kLostWeight) *
                std::expm1(std::min(lift, kernels::kMostExponent));
    });
    first_place += call_.runs[run].count();
  }
  return AddLogs(log_left, masses_[row].max_logit + std::log(raised));
}

// The weight of the unselected places in [begin, end).
double PqMassSearch::WeightLeft(size_t row, size_t begin, size_t end) const {
  const float* const weights = WeightsOf(row);
  double left = double{kernels::SumNotBelow(weights + begin, end - begin, 0)};
  const std::span<const uint32_t> selected(estimates_.places(), estimates_.num_selected());
  for (auto i = std::ranges::lower_bound(selected, begin); i != selected.end() && *i < end; ++i) {
    left -= double{weights[*i]};
  }
  return std::max(left, 0.0);
}

// Whether the exact scores of the selected keys lie about their estimates as the deviation says.
bool PqMassSearch::ErrorsAreNormal(size_t row) const {
  const float* const scores = estimates_.scores(row);
  const float* const exact = exact_ + row * num_places_;
  const uint32_t* const places = estimates_.places();
  double squares = 0;
  double count = 0;
  size_t i = 0;
  size_t end_place = 0;
  for (size_t run = 0; run < call_.runs.size(); ++run) {
    end_place += call_.runs[run].count();
    const double per_error = 1 / double{estimates_.ErrorOf(row, run)};
    const float shift = ShiftOf(estimates_.RawErrorOf(row, run));
    for (; i < estimates_.num_selected() && places[i] < end_place; ++i) {
      if (estimates_.IsOutlier(places[i])) continue;
      const double off = double{exact[i] - (scores[places[i]] - shift)} * per_error;
      squares += off * off;
      ++count;
    }
  }
  return !(squares > kMostSpread * (count + 3 * std::sqrt(2 * count)));
}

}  // namespace attndb::index
