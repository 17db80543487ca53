// Starts a thread where the system may give none: containers limit how many a process has, and a
// stack takes address space. Who wants a thread goes on without it.
//
// Errors:  none: a thread that could not be started is not joinable.
// Threads: thread-safe.
#ifndef ATTNDB_COMMON_START_THREAD_H_
#define ATTNDB_COMMON_START_THREAD_H_

#include <system_error>
#include <thread>
#include <utility>

namespace attndb {

template <typename Fn>
std::thread TryStartThread(Fn&& fn) {
  try {
    return std::thread(std::forward<Fn>(fn));
  } catch (const std::system_error&) {
    return {};
  }
}

}  // namespace attndb

#endif  // ATTNDB_COMMON_START_THREAD_H_
