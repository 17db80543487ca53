// Lets threads wait for a condition on atomics that other threads make true. No lock is taken
// unless a thread sleeps.
//
//   waiter:  event.Await([&] { return ready.load(); });
//   other:   ready.store(true);
//            event.WakeAll();
//
// Waiting: a thread checks again and again for a tenth of a millisecond, first with pauses, then
//          letting other threads run in between. If the condition is still false, it sleeps. So a
//          condition that comes soon is seen in less than a microsecond, and a late one costs no
//          time of a core.
// Errors:  none.
// Threads: thread-safe.
// Atomics: a sleeper adds itself to num_sleepers_ and then checks the condition; a waker makes the
//          condition true and then reads num_sleepers_. All four are sequentially consistent, so
//          that at least one of the two sees the other: no wake-up is lost.
// Source:  event counts, Reed and Kanodia, CACM 22(2), 1979. Ours has no count of events, because
//          the condition tells.
#ifndef ATTNDB_COMMON_EVENT_COUNT_H_
#define ATTNDB_COMMON_EVENT_COUNT_H_

#include <atomic>
#include <cstdint>

#include "common/mutex.h"

namespace attndb {

// Decides how long one waiting thread looks at its condition again before it sleeps.
class Spin {
 public:
  // Waits a moment and returns true; returns false at once if the thread should sleep.
  bool Again();

 private:
  int64_t start_ns_ = 0;
};

class EventCount {
 public:
  EventCount() = default;
  EventCount(const EventCount&) = delete;
  EventCount& operator=(const EventCount&) = delete;

  // Returns when ready(), a function of atomics that are loaded sequentially consistently.
  // spins = false: sleeps at once, as is best where there are more threads than cores.
  template <typename Ready>
  void Await(const Ready& ready, bool spins = true) ATTNDB_EXCLUDES(mutex_) {
    if (ready()) return;
    for (Spin spin; spins && spin.Again();) {
      if (ready()) return;
    }
    MutexLock lock(&mutex_);
    num_sleepers_.fetch_add(1);
    while (!ready()) woken_.Wait(&mutex_);
    num_sleepers_.fetch_sub(1);
  }

  // Wakes at most num_threads sleepers, to check again.
  // REQUIRES: the waker has changed the condition sequentially consistently before.
  void Wake(uint32_t num_threads) {
    if (num_sleepers_.load() != 0) WakeSleepers(num_threads);
  }
  void WakeAll() { Wake(UINT32_MAX); }

 private:
  void WakeSleepers(uint32_t num_threads) ATTNDB_EXCLUDES(mutex_);

  std::atomic<uint32_t> num_sleepers_ = 0;
  Mutex mutex_;  // Held by a thread that is about to sleep, so that no wake-up comes in between.
  CondVar woken_;
};

}  // namespace attndb

#endif  // ATTNDB_COMMON_EVENT_COUNT_H_
