#include "planner/head_statistics.h"

#include <algorithm>
#include <cmath>

namespace attndb::planner {
namespace {

constexpr double kMinRatio = 1.0 / 64;
constexpr double kMaxRatio = 64;
constexpr double kOutlier = 4;
constexpr uint32_t kMaxCount = 8;  // A mean of about so many calls.

// What is found in a few audited blocks stands for many: a mean of few calls would say nothing.
constexpr double kMissedCalls = 256;

void AddMean(double value, double* mean) {
  if (value < 0 || !std::isfinite(value)) return;
  *mean = *mean < 0 ? value : *mean + (value - *mean) / kMaxCount;
}

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

void HeadStatistics::ObserveDraw(double difficulty, double rows_expected, double aimed_error) {
  if (difficulty < 0 || !(rows_expected > 0)) return;
  rows.Add(std::sqrt(difficulty / (rows_expected * aimed_error)));
}

void HeadStatistics::ObserveSparse(const HeadObservation& seen, const Cost& predicted,
                                   bool by_index) {
  if (predicted.ns > 0) TimeOf(by_index).Add(seen.ns / predicted.ns);
  if (by_index && seen.missed >= 0) missed += (seen.missed - missed) / kMissedCalls;
  AddMean(seen.selected, &selected);
  AddMean(seen.error, &error);
  AddMean(seen.mass_left, &mass_left);
}

void HeadStatistics::ObserveFull(const HeadObservation& seen, const Cost& predicted) {
  if (predicted.ns > 0) full_time.Add(seen.ns / predicted.ns);
}

}  // namespace attndb::planner
