// The time of day, as interfaces and logs write it.
//
// Units:   since the beginning of 1970, in UTC.
// Threads: pure functions.
#ifndef ATTNDB_SERVER_CLOCK_H_
#define ATTNDB_SERVER_CLOCK_H_

#include <chrono>
#include <cstdint>

namespace attndb::server {

inline int64_t NowMicros() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

inline int64_t NowSeconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_CLOCK_H_
