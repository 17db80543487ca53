// Helpers for tests that wait: for an event of another thread, or for a condition.
//
// Threads: thread-safe.
#ifndef ATTNDB_TESTING_EVENT_H_
#define ATTNDB_TESTING_EVENT_H_

#include <chrono>
#include <functional>
#include <thread>

#include "common/mutex.h"

namespace attndb::test {

// Time that a test waits for an event that must come. It only ends a test that would hang: a loaded
// machine takes seconds for work that an idle machine does at once.
inline constexpr std::chrono::seconds kPatience{120};

// Waits until `is_true` returns true. Returns false if it never did.
inline bool Eventually(const std::function<bool()>& is_true) {
  constexpr std::chrono::milliseconds kStep{5};
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!is_true()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(kStep);
  }
  return true;
}

class Event {
 public:
  void Set() ATTNDB_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    set_ = true;
    condition_.NotifyAll();
  }
  void Await() ATTNDB_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    while (!set_) condition_.Wait(&mutex_);
  }
  bool IsSet() const ATTNDB_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    return set_;
  }

 private:
  mutable Mutex mutex_;
  CondVar condition_;
  bool set_ ATTNDB_GUARDED_BY(mutex_) = false;
};

}  // namespace attndb::test

#endif  // ATTNDB_TESTING_EVENT_H_
