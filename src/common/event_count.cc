#include "common/event_count.h"

#include <algorithm>
#include <thread>

#include "common/clock.h"

namespace attndb {
namespace {

// About the time of a wake-up from sleep: spinning for less would save little.
constexpr int64_t kPauseNanos = 30'000;
// An engine computes for some tens to hundreds of microseconds between two layers' attention.
constexpr int64_t kSpinNanos = 100'000;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

bool Spin::Again() {
  const int64_t now_ns = SteadyNowNanos();
  if (start_ns_ == 0) start_ns_ = now_ns;
  const int64_t waited_ns = now_ns - start_ns_;
  if (waited_ns >= kSpinNanos) return false;
  waited_ns < kPauseNanos ? Pause() : std::this_thread::yield();
  return true;
}

void EventCount::WakeSleepers(uint32_t num_threads) {
  uint32_t num_sleepers = 0;
  {
    // A thread that counted itself before is asleep by now, or saw the write.
    MutexLock lock(&mutex_);
    num_sleepers = num_sleepers_.load();
  }
  for (uint32_t i = 0; i < std::min(num_threads, num_sleepers); ++i) woken_.NotifyOne();
}

}  // namespace attndb
