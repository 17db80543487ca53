// CPU time of the calling thread: a limit on work that other processes of a loaded machine do not
// count towards.
//
// Threads: thread-safe; each thread has a time of its own.
#ifndef ATTNDB_TESTING_CPU_TIME_H_
#define ATTNDB_TESTING_CPU_TIME_H_

#include <ctime>

namespace attndb::test {

inline double ThreadCpuSeconds() {
  timespec now{};
  (void)::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace attndb::test

#endif  // ATTNDB_TESTING_CPU_TIME_H_
