// Worker threads for one kind of work: the same function over numbered parts.
//
//   pool.ParallelFor(8, [&](uint32_t part) { AttendPart(q, part, 8); });
//
// The caller works too, so a pool of one thread has no worker and costs a loop. A call allocates
// nothing. Several threads may call at the same time: they share the workers, and a caller beyond
// kSlots of them works alone. A part may not call ParallelFor of its own pool.
//
// Hand-over: workers look for parts for a tenth of a millisecond before they sleep
//          (event_count.h), so a call that comes soon after another reaches them in less than a
//          microsecond. Where there are fewer cores than threads, they sleep at once.
// Errors:  none; `fn` must not throw. Where the system starts fewer threads, fewer do the work.
// Threads: thread-safe.
#ifndef ATTNDB_COMMON_THREAD_POOL_H_
#define ATTNDB_COMMON_THREAD_POOL_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "common/event_count.h"

namespace attndb {

class ThreadPool {
 public:
  static constexpr size_t kSlots = 8;  // Calls that workers can take part in at the same time.

  // num_threads counts the caller; 0 = one a core that this process may use.
  explicit ThreadPool(uint32_t num_threads);
  // REQUIRES: no call in progress.
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // The requested number, so that work is divided equally on every machine.
  uint32_t num_threads() const { return num_threads_; }

  // Calls fn(part) once for each part in [0, num_parts), on any thread in any order; returns when
  // all have returned.
  template <typename Fn>
  void ParallelFor(uint32_t num_parts, const Fn& fn) {
    Run(
        num_parts, [](const void* f, uint32_t part) { (*static_cast<const Fn*>(f))(part); }, &fn);
  }

 private:
  using PartFn = void (*)(const void* context, uint32_t part);

  // The data of a call in progress, used by one caller after another.
  //
  // Atomics: is_taken's release by one caller pairs with the acquire of the next. num_unstarted:
  //          the caller's store hands the call over. A thread that takes a part decrements it, and
  //          thereby acquires the plain members. They are not written before all parts are done. So
  //          a thread with a part may read them, even if it checked an earlier call.
  //          num_unfinished: the release of each decrement pairs with the caller's acquire of 0.
  //          Both are sequentially consistent where an EventCount requires it.
  struct alignas(128) Slot {  // Cache lines that are fetched together.
    PartFn fn = nullptr;
    const void* context = nullptr;
    uint32_t num_parts = 0;
    std::atomic<bool> is_taken = false;
    std::atomic<uint32_t> num_unstarted = 0;
    std::atomic<uint32_t> num_unfinished = 0;
    EventCount done;  // The caller awaits it.
  };

  void Run(uint32_t num_parts, PartFn fn, const void* context);
  Slot* TakeSlot();  // Null if none is free.
  // Starts and ends a part of the call, if one is left.
  static bool RunOnePart(Slot* slot);
  bool RunAnyPart();
  bool HasPart() const;
  void WorkerLoop();

  const uint32_t num_threads_;
  const bool spins_;
  std::array<Slot, kSlots> slots_;
  std::atomic<bool> stopping_ = false;
  EventCount work_;  // Workers await parts, or the end.

  std::vector<std::thread> workers_;  // Constant after construction.
};

}  // namespace attndb

#endif  // ATTNDB_COMMON_THREAD_POOL_H_
