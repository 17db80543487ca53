#include "planner/learned_state.h"

#include <algorithm>
#include <cmath>

#include "common/check.h"

namespace attndb::planner {
namespace {

constexpr double kMinRatio = 1.0 / 64;
constexpr double kMaxRatio = 64;
constexpr double kOutlier = 4;
constexpr uint32_t kMaxCount = 8;  // A mean of about this many calls.

// A few audited blocks stand for many, so a mean over few calls would say nothing.
constexpr double kMissedCalls = 256;

// The error that draws are to find, over the one asked for: samples that stop because they find
// themselves good flatter themselves a little. By codes few draw more than once.
constexpr double kWanted = 0.83;
constexpr double kWantedByCodes = 0.9;

constexpr uint64_t kMinCalls = 16;  // Calls before statistics are worth keeping.

}  // namespace

MeanRatio::MeanRatio(double value, uint32_t count)
    : value_(std::isfinite(value) ? std::clamp(value, kMinRatio, kMaxRatio) : 1.0),
      count_(std::min(count, kMaxCount)) {}

void MeanRatio::Add(double ratio) {
  if (!std::isfinite(ratio)) return;
  ratio = std::clamp(ratio, kMinRatio, count_ == 0 ? kMaxRatio : kOutlier * value_);
  count_ = std::min(count_ + 1, kMaxCount);
  value_ += (ratio - value_) / count_;
}

LearnedState::LearnedState(const ModelSpec& spec, bool learns)
    : learns_(learns), num_calls_(spec.num_layers()) {
  for (const LayerSpec& layer : spec.layers) layers_.emplace_back(layer.num_kv_heads);
}

HeadStatistics LearnedState::Informed(LayerId layer, uint32_t kv_head) const {
  HeadStatistics head = layers_[layer][kv_head];
  for (size_t i = 0; i < kNumMethods; ++i) {
    // A count of 0 stays: other heads' times do not mean that this head was tried.
    if (head.time[i].count() == 0) head.time[i] = MeanRatio(time_[i].value(), 0);
  }
  return head;
}

void LearnedState::Observe(LayerId layer, uint64_t num_rows, const LayerExecution& execution,
                           std::span<const HeadObservation> heads) {
  if (num_rows != 1 || !execution.priced) return;
  ATTNDB_CHECK(heads.size() == layers_[layer].size() && heads.size() == execution.heads.size());
  for (size_t i = 0; i < heads.size(); ++i) {
    HeadStatistics& head = layers_[layer][i];
    const HeadObservation& seen = heads[i];
    // The mass that an index misses is an error that a draw does not see.
    if (seen.error >= 0 && execution.plan.error > 0) {
      const double error = std::hypot(seen.error, seen.missed < 0 ? 0 : head.missed);
      const bool by_codes =
          execution.plan.DrawsByCodes() && execution.heads[i].method == Method::kIndex;
      const double wanted = by_codes ? kWantedByCodes : kWanted;
      ObserveError(error / (wanted * execution.plan.error));
    }
    if (execution.heads[i].method != Method::kFull) {
      head.selected = head.selected < 0
                          ? seen.selected
                          : head.selected + (seen.selected - head.selected) / kMaxCount;
    }
    if (learns_ && execution.plan.Draws()) ObserveTime(&head, execution.heads[i], seen);
  }
  if (learns_ && execution.plan.Draws()) ++num_calls_[layer];
}

// Exploring corrects an observation that is old, or that was made first, with untouched memory: the
// new observation counts alone. The rows of a head should be proportional to the root of its
// difficulty. One more row then reduces every head's error equally, which gives the least error for
// a number of rows.
void LearnedState::ObserveTime(HeadStatistics* head, const HeadExecution& did,
                               const HeadObservation& seen) {
  head->last = did.preferred;
  if (seen.ns <= 0) return;
  const double ratio = seen.ns / did.cost_of(did.method).ns;
  MeanRatio& time = head->time_of(did.method);
  if (did.reason == Reason::kExplores) {
    time = MeanRatio(ratio, time.count() + 1);
  } else {
    time.Add(ratio);
  }
  time_[static_cast<size_t>(did.method)].Add(ratio);
  if (seen.missed >= 0) head->missed += (seen.missed - head->missed) / kMissedCalls;
  if (did.method == Method::kFull || !(did.rows_expected > 0)) return;
  if (seen.spread > 0) head->spread.Add(seen.spread);
  if (seen.difficulty < 0) return;
  head->rows.Add(std::sqrt(seen.difficulty / (did.rows_expected * did.aimed_error)));
}

void LearnedState::ObserveError(double error_ratio) {
  constexpr uint32_t kBatch = 64;  // Heads that are looked at together.
  error_sum_ += error_ratio;
  if (++num_errors_ < kBatch) return;
  const double mean = error_sum_ / num_errors_;
  const double step = mean > 0 ? std::clamp(std::sqrt(1.0 / mean), 0.75, 1.25) : 1.25;
  aim_ = std::clamp(aim_ * step, 0.1, 2.0);
  error_sum_ = 0;
  num_errors_ = 0;
}

bool LearnedState::has_learned() const {
  uint64_t num_calls = 0;
  for (const uint64_t of_layer : num_calls_) num_calls += of_layer;
  return num_calls >= kMinCalls;
}

void LearnedState::Restore(const Layers& layers) {
  if (layers.size() != layers_.size()) return;
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    if (layers[layer].size() != layers_[layer].size()) return;
  }
  layers_ = layers;
  for (const std::vector<HeadStatistics>& heads : layers_) {
    for (const HeadStatistics& head : heads) {
      for (size_t i = 0; i < kNumMethods; ++i) {
        if (head.time[i].count() > 0) time_[i].Add(head.time[i].value());
      }
    }
  }
}

}  // namespace attndb::planner
