#include "storage/tier/return_forecast.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace attndb::tier {
namespace {

constexpr double kMaxThoughts = 1 << 16;

uint32_t CappedTurns(uint32_t turns) { return std::min(turns, ReturnForecast::kMaxTurns); }

}  // namespace

size_t ReturnForecast::BucketOf(double seconds) {
  const double octaves = std::log2(1.0 + std::clamp(seconds, 0.0, 4e9));
  return std::min(static_cast<size_t>(octaves * kBucketsPerOctave), kNumBuckets - 1);
}

void ReturnForecast::AddReturn(uint32_t turns, double idle_seconds, bool was_gone) {
  const uint32_t n = CappedTurns(turns);
  returned_[n] += 1;
  if (was_gone) gone_[n] = std::max(0.0, gone_[n] - 1);
  Bucket& bucket = thoughts_[BucketOf(idle_seconds)];
  bucket.count += 1;
  bucket.seconds += std::max(0.0, idle_seconds);
  num_thoughts_ += 1;
  Summarize();
}

void ReturnForecast::AddGone(uint32_t turns) { gone_[CappedTurns(turns)] += 1; }

void ReturnForecast::Summarize() {
  if (num_thoughts_ > kMaxThoughts) {
    num_thoughts_ /= 2;
    for (double& count : returned_) count /= 2;
    for (double& count : gone_) count /= 2;
    for (Bucket& bucket : thoughts_) {
      bucket.count /= 2;
      bucket.seconds /= 2;
    }
  }
  double count = 0;
  double seconds = 0;
  for (size_t i = kNumBuckets; i-- > 0;) {
    thoughts_[i].later_count = count;
    thoughts_[i].later_seconds = seconds;
    count += thoughts_[i].count;
    seconds += thoughts_[i].seconds;
  }
}

Return ReturnForecast::Expect(uint32_t turns, double idle_seconds) const {
  const uint32_t n = CappedTurns(turns);
  // A prior of two conversations, 1.4 of which returned.
  const double p = (returned_[n] + 1.4) / (returned_[n] + gone_[n] + 2);
  const Bucket& bucket = thoughts_[BucketOf(idle_seconds)];
  const double longer = bucket.later_count + bucket.count / 2;
  const double survival = (longer + 0.5) / (num_thoughts_ + 0.5);
  Return expected;
  expected.chance = p * survival / (p * survival + 1 - p);
  // If nobody has been idle for so long yet: as long again.
  expected.seconds =
      longer == 0
          ? std::max(1.0, idle_seconds)
          : std::max(0.0, (bucket.later_seconds + bucket.seconds / 2) / longer - idle_seconds);
  return expected;
}

double ReturnForecast::Horizon() const {
  if (num_thoughts_ == 0) return std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < kNumBuckets; ++i) {
    if (thoughts_[i].later_count > num_thoughts_ / 100) continue;
    return std::exp2(static_cast<double>(i + 1) / kBucketsPerOctave) - 1.0;  // Its upper edge.
  }
  return std::numeric_limits<double>::infinity();
}

}  // namespace attndb::tier
