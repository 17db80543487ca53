// Worker threads for one kind of work: the same function over numbered parts.
//
//   pool.ParallelFor(8, [&](uint32_t part) { AttendPart(q, part, 8); });
//
// The caller works too, so a pool of one thread has no worker and costs a loop. A call allocates
// nothing. Several threads may call at the same time: they share the workers. A part may not call
// ParallelFor of its own pool.
//
// Errors:  none; `fn` must not throw.
// Threads: thread-safe.
#ifndef ATTNDB_COMMON_THREAD_POOL_H_
#define ATTNDB_COMMON_THREAD_POOL_H_

#include <cstdint>
#include <thread>
#include <vector>

#include "common/mutex.h"

namespace attndb {

class ThreadPool {
 public:
  // num_threads counts the caller; 0 = one a core of the machine.
  explicit ThreadPool(uint32_t num_threads);
  // REQUIRES: no call in progress.
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  uint32_t num_threads() const { return static_cast<uint32_t>(workers_.size()) + 1; }

  // Calls fn(part) once for each part in [0, num_parts), on any thread in any order; returns when
  // all have returned.
  template <typename Fn>
  void ParallelFor(uint32_t num_parts, const Fn& fn) {
    Run(
        num_parts, [](const void* f, uint32_t part) { (*static_cast<const Fn*>(f))(part); }, &fn);
  }

 private:
  using PartFn = void (*)(const void* context, uint32_t part);

  // One call in progress; lives on its caller's stack and in the list of jobs with parts to start.
  struct Job {
    PartFn fn;
    const void* context;
    uint32_t num_parts;
    uint32_t next_part = 0;
    uint32_t num_done = 0;
    Job* next = nullptr;
    CondVar done;
  };

  void Run(uint32_t num_parts, PartFn fn, const void* context) ATTNDB_EXCLUDES(mutex_);
  void WorkerLoop() ATTNDB_EXCLUDES(mutex_);
  // Runs the next part of `job`, which has one; lets the mutex go meanwhile.
  void RunOnePart(Job* job) ATTNDB_REQUIRES(mutex_);
  void Enqueue(Job* job) ATTNDB_REQUIRES(mutex_);
  void Dequeue(Job* job) ATTNDB_REQUIRES(mutex_);

  Mutex mutex_;
  CondVar work_;
  Job* jobs_ ATTNDB_GUARDED_BY(mutex_) = nullptr;  // Oldest first; each has a part to start.
  bool stopping_ ATTNDB_GUARDED_BY(mutex_) = false;

  std::vector<std::thread> workers_;  // Constant after construction.
};

}  // namespace attndb

#endif  // ATTNDB_COMMON_THREAD_POOL_H_
