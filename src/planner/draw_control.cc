#include "planner/draw_control.h"

#include <algorithm>
#include <cmath>

namespace attndb::planner {
namespace {

constexpr uint32_t kBatch = 64;  // Heads that are looked at together.
// Samples that stop because they find themselves good flatter themselves a little.
constexpr double kWanted = 0.85;
constexpr double kLeastAim = 0.1;
constexpr double kMostAim = 2.0;
constexpr double kLeastStep = 0.75;
constexpr double kMostStep = 1.25;

}  // namespace

void DrawControl::Observe(double error_ratio) {
  sum_ += error_ratio;
  if (++count_ < kBatch) return;
  const double mean = sum_ / count_;
  const double step = mean > 0 ? std::sqrt(kWanted / mean) : kMostStep;
  aim_ = std::clamp(aim_ * std::clamp(step, kLeastStep, kMostStep), kLeastAim, kMostAim);
  sum_ = 0;
  count_ = 0;
}

}  // namespace attndb::planner
