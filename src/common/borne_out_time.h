// The time of a clock that may be set, as far as a clock that can't be set confirms it. If the
// clock jumps ahead, the gain does not count as passed time.
//
// Limits:  knows of no jump before its construction, and accepts a jump of less than the tolerance:
//          clocks differ in speed and are corrected a little.
// Threads: constant; thread-safe.
#ifndef ATTNDB_COMMON_BORNE_OUT_TIME_H_
#define ATTNDB_COMMON_BORNE_OUT_TIME_H_

#include <time.h>

#include <algorithm>
#include <cstdint>

#include "common/clock.h"

namespace attndb {

// Microseconds since the machine was started, while it was suspended included.
inline int64_t SinceBootMicros() {
  timespec time = {};
  (void)clock_gettime(CLOCK_BOOTTIME, &time);
  return int64_t{time.tv_sec} * 1'000'000 + time.tv_nsec / 1000;
}

class BorneOutTime {
 public:
  static constexpr int64_t kToleranceUs = int64_t{3600} * 1'000'000;

  explicit BorneOutTime(int64_t now_us = SystemNowMicros(),
                        int64_t since_boot_us = SinceBootMicros())
      : start_us_(now_us), start_since_boot_us_(since_boot_us) {}

  // Microseconds since the Unix epoch.
  int64_t Now(int64_t now_us = SystemNowMicros(), int64_t since_boot_us = SinceBootMicros()) const {
    return std::min(now_us, start_us_ + (since_boot_us - start_since_boot_us_) + kToleranceUs);
  }

 private:
  const int64_t start_us_;
  const int64_t start_since_boot_us_;
};

}  // namespace attndb

#endif  // ATTNDB_COMMON_BORNE_OUT_TIME_H_
