// Time of day, which a test may simulate, and elapsed time for statistics.
//
// Threads: functions are thread-safe; a Stopwatch is a value.
#ifndef ATTNDB_COMMON_CLOCK_H_
#define ATTNDB_COMMON_CLOCK_H_

#include <chrono>
#include <cstdint>
#include <functional>

namespace attndb {

// Microseconds since the Unix epoch; may jump when the system's clock is set.
using WallClock = std::function<int64_t()>;

inline int64_t SystemNowMicros() {
  using std::chrono::duration_cast, std::chrono::microseconds, std::chrono::system_clock;
  return duration_cast<microseconds>(system_clock::now().time_since_epoch()).count();
}

// Nanoseconds of a clock that only runs forward; its zero means nothing.
inline int64_t SteadyNowNanos() {
  using std::chrono::duration_cast, std::chrono::nanoseconds, std::chrono::steady_clock;
  return duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

// Elapsed time since construction, monotonic.
class Stopwatch {
 public:
  int64_t ElapsedNanos() const {
    using std::chrono::duration_cast, std::chrono::nanoseconds;
    return duration_cast<nanoseconds>(Clock::now() - start_).count();
  }
  double ElapsedSeconds() const { return static_cast<double>(ElapsedNanos()) * 1e-9; }
  void Restart() { start_ = Clock::now(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

}  // namespace attndb

#endif  // ATTNDB_COMMON_CLOCK_H_
