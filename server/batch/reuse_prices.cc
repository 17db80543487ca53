#include "server/batch/reuse_prices.h"

#include "server/batch/moving_mean.h"

namespace attndb::server {
namespace {

constexpr uint64_t kMinMeasuredBytes = uint64_t{1} << 16;
constexpr double kAfterDeclined = 0.95;  // What is left of a price that was declined.

}  // namespace

const char* NameOf(ReuseWay way) {
  switch (way) {
    case ReuseWay::kNone:
      return "none";
    case ReuseWay::kMemory:
      return "memory";
    case ReuseWay::kDisk:
      return "disk";
    case ReuseWay::kRun:
      return "run";
  }
  return "none";
}

void ReusePrices::LearnRead(uint64_t num_bytes, double seconds) {
  if (num_bytes < kMinMeasuredBytes || !(seconds > 0)) return;
  const double rate = seconds / static_cast<double>(num_bytes);
  const std::lock_guard<std::mutex> lock(mutex_);
  Average(rate, &seconds_per_byte_);
}

void ReusePrices::LearnRun(double seconds_per_token) {
  const std::lock_guard<std::mutex> lock(mutex_);
  seconds_per_token_ = seconds_per_token;
}

ReusePrice ReusePrices::PriceOf(uint64_t num_tokens, uint64_t num_bytes) const {
  ReusePrice price = {.num_tokens = num_tokens, .num_bytes = num_bytes};
  if (num_tokens == 0) return price;
  const std::lock_guard<std::mutex> lock(mutex_);
  price.read_seconds = seconds_per_byte_ * static_cast<double>(num_bytes);
  price.run_seconds = seconds_per_token_ * static_cast<double>(num_tokens);
  price.way = num_bytes == 0 ? ReuseWay::kMemory : ReuseWay::kDisk;
  // Reading is never dearer where nothing is to be read, or no load was measured: it is priced 0.
  const bool is_known = seconds_per_token_ > 0;
  if (is_known && price.run_seconds < price.read_seconds) price.way = ReuseWay::kRun;
  return price;
}

void ReusePrices::NoteDeclined(const ReusePrice& price) {
  const std::lock_guard<std::mutex> lock(mutex_);
  seconds_per_byte_ *= kAfterDeclined;
  num_declined_tokens_ += price.num_tokens;
}

uint64_t ReusePrices::num_declined_tokens() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return num_declined_tokens_;
}

}  // namespace attndb::server
