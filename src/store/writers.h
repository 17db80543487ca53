// Threads for asynchronous writes. Jobs begin in the order in which they were added, as many at a
// time as there are threads.
//
// A thread starts when a job comes and no thread is idle, so that a program without jobs has no
// thread. If the system can start no thread and none exists, Add runs the job itself.
//
// Threads: thread-safe. A job may add others and may wait for earlier ones, but each waiting job
//          occupies a thread.
#ifndef ATTNDB_STORE_WRITERS_H_
#define ATTNDB_STORE_WRITERS_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "common/mutex.h"

namespace attndb::store {

class Writers {
 public:
  // Each thread waits for its disk most of the time.
  static constexpr size_t kMaxThreads = 16;

  Writers() = default;
  ~Writers() { Finish(); }
  Writers(const Writers&) = delete;
  Writers& operator=(const Writers&) = delete;

  // REQUIRES: Finish was not called, unless a job calls this.
  void Add(std::function<void()> job) ATTNDB_EXCLUDES(mutex_);
  // Returns when all jobs are done and all threads have ended.
  void Finish() ATTNDB_EXCLUDES(mutex_);

 private:
  void Run() ATTNDB_EXCLUDES(mutex_);

  Mutex mutex_;  // A leaf: no job runs under it.
  CondVar changed_;
  std::deque<std::function<void()>> jobs_ ATTNDB_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ ATTNDB_GUARDED_BY(mutex_);
  size_t num_threads_ ATTNDB_GUARDED_BY(mutex_) = 0;  // Threads that were started.
  size_t num_idle_ ATTNDB_GUARDED_BY(mutex_) = 0;
  size_t num_running_ ATTNDB_GUARDED_BY(mutex_) = 0;  // Jobs in these threads.
  bool finishing_ ATTNDB_GUARDED_BY(mutex_) = false;
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_WRITERS_H_
