#include "index/pq/pq_index.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

#include "common/checked_math.h"
#include "common/infinity.h"
#include "common/lane_sum.h"
#include "common/log_sum.h"
#include "index/fair_share.h"
#include "index/mass_cut.h"
#include "index/search_scratch.h"
#include "kernels/score.h"
#include "kernels/select.h"
#include "kernels/weights.h"

namespace attndb::index {
namespace {

constexpr size_t kAlignment = 64;

// Errors of codes are taken to be normal, with one deviation for all keys of a run. That does not
// hold for keys that are far longer than others. A search by mass scores the keys of a block
// exactly if one of them may be so many deviations off; other searches do so at
// PqKeys::kMostDeviations.
constexpr float kMassDeviations = 2.5f;

// A mass is not estimated at all where the selected keys are so many times further off than the
// deviation says, in the mean square.
constexpr double kMostSpread = 4;

// A block's keys may be so many deviations off before its mass is taken to be larger than its
// estimate.
constexpr float kUsualDeviations = 1.5f;

// Deviations below so many nats are no matter.
constexpr float kLeastNats = 0.1f;

// Where more than this part of the keys may be so far off, a mass is that of exact scores of all
// keys, and other searches go by estimates alone.
constexpr size_t kOutlierPart = 4;

// A search by mass selects so often at most.
constexpr int kMostRounds = 5;

// Weights are up to exp(kMostNats): the largest score that there may be is far above those that
// there are, and words reach as far below 1 as above it.
constexpr float kMostNats = 60;

const PqKeys& KeysOf(const IndexRun& run) { return static_cast<const PqIndex&>(*run.index).keys(); }

// One search. Places number the visible keys of all runs, one run after another.
class PqSearch {
 public:
  // Null scratch: measures.
  PqSearch(const IndexCall& call, void* scratch, SearchCost* cost)
      : call_(call),
        cost_(cost),
        scratch_(scratch),
        num_places_(call.num_visible()),
        effort_(call.spec.effort > 0 ? call.spec.effort : 1.0f),
        fair_(call, call.spec.kind == SearchKind::kTopK ? num_places_ : 0, &scratch_) {
    size_t query_bytes = 0;
    for (const IndexRun& run : call.runs) {
      query_bytes = std::max(query_bytes, KeysOf(run).QueryBytes(call.num_q_rows));
    }
    tables_ = scratch_.Take<std::byte>(query_bytes);
    scores_ = scratch_.Take<float>(call.num_q_rows * num_places_);
    worth_ = scratch_.Take<float>(num_places_);
    outliers_ = scratch_.Take<uint8_t>(num_places_);
    errors_ = scratch_.Take<float>(call.num_q_rows * call.runs.size());
    norms_ = scratch_.Take<float>(call.num_q_rows);
    exact_ = scores_;
    if (IsMass()) {
      exact_ = scratch_.Take<float>(call.num_q_rows * num_places_);
      weights_ = scratch_.Take<float>(call.num_q_rows * num_places_);
      spare_ = scratch_.Take<float>(num_places_ + kernels::kSelectSlack);
      masses_ = scratch_.Take<RowMass>(call.num_q_rows);
    }
    places_ = scratch_.Take<uint32_t>(num_places_ + kernels::kSelectSlack);
    keys_ = scratch_.Take<uint32_t>(num_places_);
    tokens_ = scratch_.Take<uint32_t>(num_places_);
    select_ = scratch_.Take<std::byte>(kernels::SelectTopKScratchBytes(num_places_));
  }

  size_t scratch_bytes() const { return scratch_.num_bytes(); }

  Status Run(FoundKeys* found) {
    for (size_t r = 0; r < call_.num_q_rows; ++r) found[r].count = 0;
    if (num_places_ == 0) return Status::Ok();
    Estimate();
    if (IsMass()) {
      ATTNDB_RETURN_IF_ERROR(FindMass(found));
    } else {
      Select();
      ATTNDB_RETURN_IF_ERROR(ScoreSelected());
    }
    for (size_t r = 0; r < call_.num_q_rows; ++r) Choose(r, &found[r]);
    return Status::Ok();
  }

 private:
  struct RowMass {
    double max_logit = 0;
    double all = 0;  // The sum of its weights over that of max_logit.
  };

  bool IsRange() const { return call_.spec.kind == SearchKind::kRange; }
  bool IsMass() const { return call_.spec.kind == SearchKind::kMass; }

  // Estimates the scores of all places for all rows, and finds the largest error of any run's
  // codes.
  void Estimate() {
    size_t place = 0;
    for (size_t i = 0; i < call_.runs.size(); ++i) {
      const IndexRun& run = call_.runs[i];
      const size_t count = run.count();
      if (count == 0) continue;
      const PqKeys& keys = KeysOf(run);
      const PqQueries queries = keys.Prepare(call_.q, call_.q_stride, call_.num_q_rows, tables_);
      keys.Scan(queries, run.first_visible, count, scores_ + place, num_places_);
      for (size_t r = 0; r < call_.num_q_rows; ++r) {
        const float rounding = queries.rows[r].rounding_deviation;
        const float error = std::hypot(keys.ScoreError(queries.norms[r]), rounding);
        errors_[r * call_.runs.size() + i] = error;
        norms_[r] = queries.norms[r];
        if (!std::isfinite(error)) continue;
        margin_ = std::max(margin_, error);
        if (IsMass()) RaiseScores(r, place, count, error);
      }
      MarkOutliers(i, place);
      place += count;
      cost_->bytes_touched += static_cast<uint64_t>(static_cast<double>(count) * keys.ScanBytes());
    }
    cost_->keys_scored += num_places_ * call_.num_q_rows;
  }

  // So that the weights that the estimates give are right in the mean: a key lies about its
  // centroids, and the mean of exp(scale * x) for normal x of deviation `error` is
  // exp((scale * error)^2 / 2). (Scores by planes are lowered: there estimates lie about the
  // key's.)
  void RaiseScores(size_t row, size_t first_place, size_t count, float error) {
    const float shift = ShiftOf(error);
    float* const scores = scores_ + row * num_places_ + first_place;
    for (size_t i = 0; i < count; ++i) scores[i] += shift;
  }

  // Calls f(block, begin, end) for the visible keys of each block.
  template <typename F>
  static void ForEachBlock(const IndexRun& run, const F& f) {
    for (size_t begin = run.first_visible; begin < run.num_visible;) {
      const size_t block = begin / kernels::kCodeKeys;
      const size_t end = std::min((block + 1) * kernels::kCodeKeys, run.num_visible);
      f(block, begin, end);
      begin = end;
    }
  }

  float ErrorOf(size_t row, size_t run) const {
    return std::max(errors_[row * call_.runs.size() + run], kLeastNats / call_.spec.logit.scale);
  }
  // Standard deviation of the error of scores of a block's keys if all are as badly said as one.
  float MostOff(size_t row, size_t run, size_t block) const {
    const float spread = std::sqrt(static_cast<float>(call_.num_channels()));
    return norms_[row] * KeysOf(call_.runs[run]).residuals()[block] / spread;
  }
  float ShiftOf(float error) const { return 0.5f * call_.spec.logit.scale * error * error; }

  // Marks the keys of blocks that hold a key which codes say badly, to some row.
  void MarkOutliers(size_t run_idx, size_t first_place) {
    const IndexRun& run = call_.runs[run_idx];
    uint8_t* const outliers = outliers_ + first_place;
    std::fill_n(outliers, run.count(), uint8_t{0});
    if (!IsMass() && !KeysOf(run).has_outliers()) return;
    const float deviations = IsMass() ? kMassDeviations : PqKeys::kMostDeviations;
    float most = kInfinity;  // Norm of what codes usually leave out of a key at most.
    for (size_t r = 0; r < call_.num_q_rows; ++r) {
      most = std::min(most, deviations * ErrorOf(r, run_idx) / norms_[r]);
    }
    most *= std::sqrt(static_cast<float>(call_.num_channels()));
    const float* const residuals = KeysOf(run).residuals();
    ForEachBlock(run, [&](size_t block, size_t begin, size_t end) {
      if (!(residuals[block] > most)) return;
      std::fill_n(outliers + (begin - run.first_visible), end - begin, uint8_t{1});
      num_outliers_ += end - begin;
    });
  }

  // Whether the exact scores of the selected keys lie about their estimates as the deviation says.
  bool ErrorsAreNormal(size_t row) const {
    const float* const scores = scores_ + row * num_places_;
    const float* const exact = exact_ + row * num_places_;
    double squares = 0;
    double count = 0;
    size_t i = 0;
    size_t end_place = 0;
    for (size_t run = 0; run < call_.runs.size(); ++run) {
      end_place += call_.runs[run].count();
      const float error = ErrorOf(row, run);
      const double per_error = 1 / double{error};
      const float shift = ShiftOf(errors_[row * call_.runs.size() + run]);
      for (; i < num_selected_ && places_[i] < end_place; ++i) {
        if (outliers_[places_[i]] != 0) continue;
        const double off = double{exact[i] - (scores[places_[i]] - shift)} * per_error;
        squares += off * off;
        ++count;
      }
    }
    return !(squares > kMostSpread * (count + 3 * std::sqrt(2 * count)));
  }

  const float* WeightsOf(size_t row) const { return weights_ + row * num_places_; }

  // Weights of all places, over that of the row's best score.
  void Weigh(size_t row) {
    const float* const scores = scores_ + row * num_places_;
    float* const weights = weights_ + row * num_places_;
    const float best = std::max(kernels::MaxScore(scores, num_places_), call_.best[row]);
    masses_[row].max_logit = double{kernels::LogitOf(best, call_.spec.logit)};
    kernels::ExpWeights(scores, num_places_, call_.spec.logit,
                        static_cast<float>(masses_[row].max_logit), weights);
    masses_[row].all = double{kernels::SumNotBelow(weights, num_places_, 0)};
  }

  // What is selected by estimates looks heavier than it is, so that it may hold too little once it
  // is scored: then more is selected. Where the estimates do not tell how much it holds, all is.
  Status FindMass(FoundKeys* found) {
    for (size_t r = 0; r < call_.num_q_rows; ++r) Weigh(r);
    double left = (1 - call_.spec.p) / double{effort_};
    const bool is_sure = num_outliers_ <= num_places_ / kOutlierPart;
    for (int round = 0; is_sure && round < kMostRounds; ++round, left /= 2) {
      SelectMass(1 - left);
      ATTNDB_RETURN_IF_ERROR(ScoreSelected());
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

  Status SelectAll(FoundKeys* found) {
    num_selected_ = num_places_;
    std::iota(places_, places_ + num_places_, 0u);
    ATTNDB_RETURN_IF_ERROR(ScoreSelected());
    for (size_t r = 0; r < call_.num_q_rows; ++r) found[r].log_mass = -double{kInfinity};
    cost_->full_scans += call_.runs.size();
    return Status::Ok();
  }

  // The places that some row needs for a share of its mass, by estimates. A row that is not finite
  // has no say.
  void SelectMass(double p) {
    for (size_t i = 0; i < num_places_; ++i) worth_[i] = outliers_[i] != 0 ? 1.0f : -1.0f;
    for (size_t r = 0; r < call_.num_q_rows; ++r) {
      const float* const weights = WeightsOf(r);
      const double all = masses_[r].all;
      const double fixed = std::exp(call_.log_fixed[r] - masses_[r].max_logit);
      const double need = p * (fixed + all) - fixed;
      if (!(need > 0)) continue;
      // All up to this weight together may be left out.
      const auto light =
          static_cast<float>(0.999 * (all - need) / static_cast<double>(num_places_));
      const size_t num_heavy =
          kernels::TakeNotBelow(weights, num_places_, std::nextafter(light, kInfinity), spare_);
      const MassCut cut = FindMassCut(spare_, num_heavy, need);
      for (size_t i = 0; i < num_places_; ++i) {
        worth_[i] = weights[i] >= cut.least ? 1.0f : worth_[i];
      }
    }
    num_selected_ = kernels::SelectRange(worth_, num_places_, 0, places_);
  }

  // The log of the mass of a row's exact scores.
  double LogMass(const float* exact) const {
    return LogMassOf(exact, num_selected_, call_.spec.logit, spare_);
  }

  // The log of the mass of what was not selected, by estimates.
  double LogMassLeft(size_t row) const {
    const float* const weights = WeightsOf(row);
    const auto selected =
        LaneSum<double>(num_selected_, [&](size_t i) { return double{weights[places_[i]]}; });
    return masses_[row].max_logit + std::log(std::max(masses_[row].all - selected, 0.0));
  }

  // The same, raised where keys of a block may be off by more than usual.
  double LogMostLeft(size_t row, double log_left) const {
    const double scale = double{call_.spec.logit.scale};
    double raised = static_cast<double>(num_places_) * kernels::kLostWeight;
    size_t first_place = 0;
    for (size_t run = 0; run < call_.runs.size(); ++run) {
      const double error = double{ErrorOf(row, run)};
      const double most_usual = kUsualDeviations * error;
      const size_t first_key = call_.runs[run].first_visible;
      ForEachBlock(call_.runs[run], [&](size_t block, size_t begin, size_t end) {
        const double most = double{MostOff(row, run, block)};
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

  // The weight of those of the places [begin, end) that were not selected.
  double WeightLeft(size_t row, size_t begin, size_t end) const {
    const float* const weights = WeightsOf(row);
    double left = double{kernels::SumNotBelow(weights + begin, end - begin, 0)};
    const std::span<const uint32_t> selected(places_, num_selected_);
    for (auto i = std::ranges::lower_bound(selected, begin); i != selected.end() && *i < end; ++i) {
      left -= double{weights[*i]};
    }
    return std::max(left, 0.0);
  }

  // The places that are worth most to any row: of a range, those that may lie in it; and those
  // whose worth is not known. A row that is not finite has no say.
  void Select() {
    std::fill_n(worth_, num_places_, -kInfinity);
    for (size_t r = 0; r < call_.num_q_rows; ++r) {
      const float* const scores = scores_ + r * num_places_;
      const float best = std::max(kernels::MaxScore(scores, num_places_), call_.best[r]);
      fair_.SetBest(r, best);
      if (!std::isfinite(best)) continue;
      for (size_t i = 0; i < num_places_; ++i) {
        worth_[i] = std::max(worth_[i], scores[i] - best);
      }
    }
    size_t num_more = 0;
    if (num_outliers_ > 0 && num_outliers_ <= num_places_ / kOutlierPart) {
      for (size_t i = 0; i < num_places_; ++i) {
        worth_[i] = outliers_[i] != 0 ? kInfinity : worth_[i];
      }
      num_more = num_outliers_;
    }
    if (IsRange()) {
      // The best estimate errs upwards as much as others err downwards.
      const float floor = -(call_.spec.beta + 2 * effort_ * margin_);
      num_selected_ = kernels::SelectRange(worth_, num_places_, floor, places_);
      return;
    }
    const double wanted =
        std::ceil(static_cast<double>(effort_) * call_.spec.k) + static_cast<double>(num_more);
    const auto count = static_cast<size_t>(std::min(wanted, static_cast<double>(num_places_)));
    const RatedItems items = {scores_, num_places_, worth_, /*is_margin=*/true};
    num_selected_ = kernels::SelectTopK(worth_, num_places_, count, places_, select_);
    while (fair_.Feed(items, {places_, num_selected_}, select_)) {
      num_selected_ = fair_.SelectAgain(items, num_selected_, places_, select_);
    }
  }

  // Exact scores, of all rows: [q row][selected].
  Status ScoreSelected() {
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
      kernels::ScoreGather(listed.rows, listed.list, count, call_.q, call_.q_stride,
                           call_.num_q_rows, exact_ + begin, num_places_);
      begin += count;
    }
    cost_->rows_read += num_selected_;
    cost_->bytes_touched +=
        num_selected_ * call_.num_channels() * DTypeBytes(call_.runs[0].keys.dtype);
    return Status::Ok();
  }

  // Gives the row what it finds among the selected keys.
  void Choose(size_t row, FoundKeys* found) {
    const float* const exact = exact_ + row * num_places_;
    size_t count = 0;
    if (IsMass()) {
      count = num_selected_;
      std::copy_n(tokens_, count, found->tokens);
      std::copy_n(exact, count, found->scores);
      found->count = count;
      found->log_mass = AddLogs(found->log_mass, LogMass(exact));
      return;
    }
    if (IsRange()) {
      const float best = std::max(kernels::MaxScore(exact, num_selected_), call_.best[row]);
      count = kernels::SelectRange(exact, num_selected_, best - call_.spec.beta, places_);
    } else {
      count = kernels::SelectTopK(exact, num_selected_, call_.spec.k, places_, select_);
    }
    for (size_t i = 0; i < count; ++i) {
      found->tokens[i] = tokens_[places_[i]];
      found->scores[i] = exact[places_[i]];
    }
    found->count = count;
  }

  const IndexCall& call_;
  SearchCost* const cost_;
  SearchScratch scratch_;
  const size_t num_places_;
  const float effort_;
  FairShare fair_;
  float margin_ = 0;
  size_t num_selected_ = 0;
  std::byte* tables_ = nullptr;  // The lookup tables of one run.
  float* scores_ = nullptr;      // [q row][place]: estimates.
  float* exact_ = nullptr;       // [q row][selected], num_places_ apart; perhaps in their place.
  float* worth_ = nullptr;       // [place]
  uint8_t* outliers_ = nullptr;  // [place]: 1 where the estimate may be off by far.
  size_t num_outliers_ = 0;
  float* errors_ = nullptr;  // [q row][run]: deviations of estimates.
  float* norms_ = nullptr;   // [q row]
  // weights_, masses_ and spare_ are used only where masses are compared.
  float* weights_ = nullptr;     // [q row][place]: weights by estimates.
  RowMass* masses_ = nullptr;    // [q row]
  float* spare_ = nullptr;       // Room for one row of weights.
  uint32_t* places_ = nullptr;   // Selected places, ascending; then those of them that a row chose.
  uint32_t* keys_ = nullptr;     // Selected keys: row numbers in their run.
  uint32_t* tokens_ = nullptr;   // Selected keys: tokens of the call.
  std::byte* select_ = nullptr;  // Scratch of kernels::SelectTopK.
};

}  // namespace

size_t PqIndex::ScratchBytes(const IndexCall& call) const {
  return PqSearch(call, nullptr, nullptr).scratch_bytes();
}

Status PqIndex::Search(const IndexCall& call, void* scratch, FoundKeys* found,
                       SearchCost* cost) const {
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
