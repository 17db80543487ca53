#include "planner/plan_advisor.h"

#include <algorithm>
#include <cmath>

#include "common/check.h"

namespace attndb::planner {
namespace {

// Errors that a TPOT objective is tried with, smallest first.
constexpr double kErrorLadder[] = {0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5};

// A head is tried so often before a prediction that it would be slower is believed, unless that is
// by much.
constexpr uint32_t kFirstTrials = 2;
constexpr double kMuchSlower = 2;
constexpr double kHopeless = 8;  // What was seen the first time may be so much worse.

// An objective's error is looked for again after so many calls of a layer, or so much growth.
constexpr uint32_t kSettledCalls = 32;
constexpr uint64_t kSettledGrowth = 32;  // One part in it.

// A head that preferred `full` when its context was stored is tried after so many calls.
constexpr uint32_t kRestoredRetry = 16;

// A search that is not so much better than `full` makes it worth knowing exactly what that takes.
constexpr double kClearlyBetter = 0.5;
constexpr uint32_t kMeasureFullCalls = 2048;
constexpr double kSelectedCalls = 8;  // That a mean of selected tokens is of, about.

constexpr uint32_t kFirstRetry = 6;

// Calls until a head that prefers `full`, or a scan, is tried again. Soon at first, since the calls
// that told against a search may have been disturbed, as by planes that are built beside them; then
// four times as late after each trial, and the later the worse a search looks, so that all trials
// together cost less than half a percent in the end.
uint32_t CallsToRetry(double trial_ns, double chosen_ns, uint32_t num_trials) {
  constexpr double kMaxFactor = 256;
  const double factor = std::clamp(trial_ns / chosen_ns, 1.0, kMaxFactor);
  const uint32_t calls = kFirstRetry << 2 * std::min(num_trials, 8u);
  return static_cast<uint32_t>(factor * std::min(PlanAdvisor::kRetryCalls, calls));
}

// What a call is expected to take, without the correction for time and with it.
struct Expected {
  double cost_ns = 0;
  double ns = 0;
};

// Whether what was seldom or never tried should be, beside what is chosen.
bool WantsFirstTrial(const MeanRatio& time, const Expected& trial, const Expected& chosen) {
  return time.count() < kFirstTrials && trial.cost_ns < kMuchSlower * chosen.cost_ns &&
         trial.ns < kHopeless * chosen.ns;
}

Expected SparseOf(const HeadChoice& head) { return {head.sparse_cost.ns, head.sparse_ns}; }
Expected FullOf(const HeadChoice& head) { return {head.full_cost.ns, head.full_ns}; }

bool IsTrial(Reason reason) {
  return reason == Reason::kTriedAgain || reason == Reason::kIndexTried ||
         reason == Reason::kScanTried;
}

}  // namespace

PlanAdvisor::PlanAdvisor(const ModelSpec* spec, Options options)
    : spec_(spec), options_(std::move(options)), choices_(spec->num_layers()) {
  for (const LayerSpec& layer : spec->layers) statistics_.emplace_back(layer.num_kv_heads);
}

void PlanAdvisor::SetPlan(const Plan* plan) {
  plan_ = plan;
  settled_.clear();
}

LayerQuestion PlanAdvisor::Ask(LayerId layer, const LayerPlan& plan,
                               const ChainFacts& chain) const {
  LayerQuestion question;
  question.layer = layer;
  question.spec = &spec_->layers[layer];
  question.kv_dtype = spec_->kv_dtype;
  question.plan = &plan;
  question.aimed_error = plan.error * draws_.aim();
  question.registry = options_.registry;
  question.chain = chain;
  question.num_threads = num_threads_;
  question.dense_query_tokens = options_.dense_query_tokens;
  return question;
}

HeadStatistics PlanAdvisor::Informed(const HeadStatistics& head) const {
  HeadStatistics informed = head;
  if (head.sparse_time.count() == 0) informed.sparse_time = sparse_time_;
  if (head.index_time.count() == 0) informed.index_time = index_time_;
  if (informed.index_time.count() == 0) {  // What is off for scans may be off for it too.
    informed.index_time = MeanRatio(informed.sparse_time.value(), 0);
  }
  if (head.full_time.count() == 0) informed.full_time = full_time_;
  return informed;
}

void PlanAdvisor::Decide(const LayerQuestion& question, LayerChoice* choice) const {
  const std::vector<HeadStatistics>& heads = statistics_[question.layer];
  choice->heads.resize(heads.size());
  choice->others.clear();
  const std::string_view rule = RuleFor(question);
  choice->priced = rule.empty() && choice->plan.Chooses();
  const MachineConstants& machine =
      options_.machine(choice->priced && choice->plan.kind == QueryKind::kAuto);
  if (!choice->priced) {
    std::fill(choice->heads.begin(), choice->heads.end(), PriceSettled(question, machine));
  } else {
    const IndexType* const drawing = options_.learns ? DrawingIndex(question) : nullptr;
    for (size_t i = 0; i < heads.size(); ++i) {
      const HeadStatistics head = Informed(heads[i]);
      HeadChoice& chosen = choice->heads[i];
      chosen = ChooseHead(question, *choice->plan.index, head, machine);
      if (drawing == nullptr) continue;
      HeadChoice& other =
          choice->others.emplace_back(ChooseHead(question, *drawing, head, machine));
      if (!TakesIndex(question, head, chosen, other)) continue;
      std::swap(chosen, other);
      if (!chosen.full) chosen.reason = Reason::kIndexCheaper;
    }
  }
  Summarize(choice);
  if (!choice->priced) choice->full_reason = rule;
}

LayerPlan LayerChoice::PlanOf(uint32_t kv_head) const {
  LayerPlan of_head = plan;
  if (others.empty()) return of_head;
  of_head.index = heads[kv_head].index;
  of_head.default_index = false;
  return of_head;
}

// The plan has the index that any head draws by.
void PlanAdvisor::Summarize(LayerChoice* choice) const {
  choice->all_full = std::all_of(choice->heads.begin(), choice->heads.end(),
                                 [](const HeadChoice& head) { return head.full; });
  choice->full_reason = choice->all_full ? TextOf(choice->heads.front().reason) : "";
  if (choice->others.empty()) return;
  const auto by_index = std::ranges::find_if(
      choice->heads, [](const HeadChoice& head) { return !head.full && head.index->draws; });
  const IndexType* const scanning = options_.registry->default_index();
  choice->plan.default_index = by_index == choice->heads.end();
  choice->plan.index = choice->plan.default_index ? scanning : by_index->index;
}

const LayerChoice& PlanAdvisor::Choose(LayerId layer, const ChainFacts& chain, uint64_t num_rows) {
  LayerChoice& choice = choices_[layer];
  choice.plan = Settle(layer, chain);
  LayerQuestion question = Ask(layer, choice.plan, chain);
  question.num_rows = num_rows;
  Decide(question, &choice);
  if (choice.priced && choice.plan.Draws()) {
    choice.aimed_error = question.aimed_error;
    choice.draws.clear();
    for (const HeadChoice& head : choice.heads) {
      choice.draws.push_back(BudgetFor(head.rows, question.aimed_error));
    }
    Try(layer, &choice);
  }
  return choice;
}

// Notes what was decided by cost, and sends a head the other way where that may teach something.
void PlanAdvisor::Try(LayerId layer, LayerChoice* choice) {
  ++calls_since_full_;
  bool wants_full = full_time_.count() < 2 || calls_since_full_ >= kMeasureFullCalls;
  for (size_t i = 0; i < choice->heads.size(); ++i) {
    HeadStatistics& head = statistics_[layer][i];
    HeadChoice& chosen = choice->heads[i];
    if (chosen.full && !head.prefers_full) head.retry_in = kFirstRetry;
    if (!chosen.full) head.num_trials = 0;
    head.prefers_full = chosen.full;
    if (!options_.learns) continue;
    const bool is_new =
        WantsFirstTrial(head.TimeOf(chosen.index->draws), SparseOf(chosen), FullOf(chosen));
    if (chosen.full && (is_new || head.retry_in-- == 0)) {
      head.retry_in = CallsToRetry(chosen.sparse_ns, chosen.full_ns, ++head.num_trials);
      chosen.full = false;
      chosen.reason = Reason::kTriedAgain;
    } else if (!chosen.full && wants_full && chosen.sparse_ns > kClearlyBetter * chosen.full_ns) {
      wants_full = false;  // One head is enough.
      calls_since_full_ = 0;
      chosen.full = true;
      chosen.reason = Reason::kMeasuresFull;
    }
  }
  TryIndex(layer, choice);
  Summarize(choice);
}

// The same between a scan and an index, where there is one. Both are measured before either is
// believed in.
void PlanAdvisor::TryIndex(LayerId layer, LayerChoice* choice) {
  for (size_t i = 0; i < choice->others.size(); ++i) {
    HeadStatistics& head = statistics_[layer][i];
    HeadChoice& chosen = choice->heads[i];
    HeadChoice& other = choice->others[i];
    if (chosen.full) continue;
    const bool by_index = chosen.index->draws;
    if (!by_index && head.prefers_index) head.index_retry_in = kFirstRetry;
    if (by_index) head.num_index_trials = 0;
    head.prefers_index = by_index;
    if (chosen.reason == Reason::kTriedAgain) continue;
    const bool is_new = WantsFirstTrial(head.TimeOf(!by_index), SparseOf(other), SparseOf(chosen));
    if (!is_new && (by_index || head.index_retry_in-- != 0)) continue;
    if (!by_index) {
      head.index_retry_in =
          CallsToRetry(other.sparse_ns, chosen.sparse_ns, ++head.num_index_trials);
    }
    std::swap(chosen, other);
    chosen.full = false;
    chosen.reason = by_index ? Reason::kScanTried : Reason::kIndexTried;
  }
}

LayerChoice PlanAdvisor::Preview(LayerId layer, const ChainFacts& chain) const {
  LayerChoice choice;
  choice.plan = plan_->ForLayer(layer);
  if (const std::optional<ErrorChoice> error = ErrorOf(layer, chain)) {
    choice.plan.SetError(error->error);
  }
  Decide(Ask(layer, choice.plan, chain), &choice);
  return choice;
}

void PlanAdvisor::Observe(LayerId layer, uint64_t num_rows,
                          std::span<const HeadObservation> heads) {
  const LayerChoice& choice = choices_[layer];
  if (num_rows != 1 || !choice.priced) return;
  ATTNDB_CHECK(heads.size() == choice.heads.size());
  if (choice.plan.kind != QueryKind::kAuto) {
    // Asked for: there is nothing to decide. How much it selects is worth knowing for Explain.
    for (size_t i = 0; i < heads.size(); ++i) {
      double& mean = statistics_[layer][i].selected;
      mean = mean < 0 ? heads[i].selected : mean + (heads[i].selected - mean) / kSelectedCalls;
    }
    return;
  }
  for (size_t i = 0; i < heads.size(); ++i) {
    if (heads[i].error < 0) continue;
    // What an index misses is an error that a draw does not find.
    const double missed = heads[i].missed < 0 ? 0 : statistics_[layer][i].missed;
    draws_.Observe(std::hypot(heads[i].error, missed) / choice.plan.error);
  }
  if (!options_.learns) return;
  ++num_observed_;
  for (size_t i = 0; i < heads.size(); ++i) {
    const HeadChoice& chosen = choice.heads[i];
    HeadStatistics& head = statistics_[layer][i];
    if (heads[i].ns <= 0) continue;
    if (chosen.full) {
      head.ObserveFull(heads[i], chosen.full_cost);
      full_time_.Add(heads[i].ns / chosen.full_cost.ns);
      continue;
    }
    // A trial counts alone: what was seen long ago is what it is to test, and what was seen first
    // was seen with memory that nobody had touched.
    const bool by_index = chosen.index->draws;
    const double ratio = heads[i].ns / chosen.sparse_cost.ns;
    if (IsTrial(chosen.reason)) {
      MeanRatio& time = head.TimeOf(by_index);
      time = time.count() == 1 ? MeanRatio(ratio, 1) : MeanRatio();
    }
    head.ObserveSparse(heads[i], chosen.sparse_cost, by_index);
    head.ObserveDraw(heads[i].difficulty, chosen.rows_expected, choice.aimed_error);
    (by_index ? index_time_ : sparse_time_).Add(ratio);
  }
}

double PlanAdvisor::PredictWith(double error, const ChainFacts& chain) const {
  double micros = 0;
  LayerChoice choice;
  for (LayerId layer = 0; layer < spec_->num_layers(); ++layer) {
    choice.plan = plan_->ForLayer(layer);
    if (choice.plan.kind == QueryKind::kAuto && choice.plan.error == 0) choice.plan.error = error;
    Decide(Ask(layer, choice.plan, chain), &choice);
    Cost sum;
    for (const HeadChoice& head : choice.heads) {
      sum.bytes += head.predicted().bytes;
      sum.ns += head.predicted().ns;
    }
    micros += WallMicros(sum, num_threads_, options_.machine(false));
  }
  return micros;
}

double PlanAdvisor::PredictMicros(const ChainFacts& chain) const {
  for (LayerId layer = 0; layer < spec_->num_layers(); ++layer) {
    if (const std::optional<ErrorChoice> error = ErrorOf(layer, chain)) return error->predicted_us;
  }
  return PredictWith(0, chain);
}

ErrorChoice PlanAdvisor::FindError(double tpot_ms, const ChainFacts& chain) const {
  ErrorChoice choice;
  for (const double error : kErrorLadder) {
    choice.error = error;
    choice.predicted_us = PredictWith(error, chain);
    choice.reachable = choice.predicted_us <= tpot_ms * 1e3;
    if (choice.reachable) break;
  }
  return choice;
}

std::optional<ErrorChoice> PlanAdvisor::ErrorOf(LayerId layer, const ChainFacts& chain) const {
  const LayerPlan& plan = plan_->ForLayer(layer);
  if (plan.kind != QueryKind::kAuto || plan.error != 0) return std::nullopt;
  return FindError(plan.Get("tpot"), chain);
}

LayerPlan PlanAdvisor::Settle(LayerId layer, const ChainFacts& chain) {
  LayerPlan plan = plan_->ForLayer(layer);
  if (plan.kind != QueryKind::kAuto || plan.error != 0) return plan;
  const double tpot_ms = plan.Get("tpot");
  auto found = std::find_if(settled_.begin(), settled_.end(),
                            [&](const Settled& item) { return item.tpot_ms == tpot_ms; });
  if (found == settled_.end()) found = settled_.insert(found, {.tpot_ms = tpot_ms});
  const uint64_t grown =
      std::max(chain.num_tokens, found->num_tokens) - std::min(chain.num_tokens, found->num_tokens);
  if (found->calls_left == 0 || grown * kSettledGrowth > chain.num_tokens) {
    found->choice = FindError(tpot_ms, chain);
    found->num_tokens = chain.num_tokens;
    found->calls_left = kSettledCalls * spec_->num_layers();
  }
  --found->calls_left;
  plan.SetError(found->choice.error);
  return plan;
}

std::string PlanAdvisor::Notes(LayerId layer, const ChainFacts& chain) const {
  return NotesOf(Ask(layer, plan_->ForLayer(layer), chain));
}

void PlanAdvisor::Restore(const std::vector<std::vector<HeadStatistics>>& statistics) {
  if (statistics.size() != statistics_.size()) return;
  for (size_t layer = 0; layer < statistics.size(); ++layer) {
    if (statistics[layer].size() != statistics_[layer].size()) return;
  }
  statistics_ = statistics;
  for (std::vector<HeadStatistics>& heads : statistics_) {
    for (HeadStatistics& head : heads) {
      head.retry_in = kRestoredRetry;
      head.index_retry_in = kRestoredRetry;
      if (head.sparse_time.count() > 0) sparse_time_.Add(head.sparse_time.value());
      if (head.index_time.count() > 0) index_time_.Add(head.index_time.value());
      if (head.full_time.count() > 0) full_time_.Add(head.full_time.value());
    }
  }
}

}  // namespace attndb::planner
