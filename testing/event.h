// Something that one thread does and others wait for, in tests.
//
// Threads: thread-safe.
#ifndef ATTNDB_TESTING_EVENT_H_
#define ATTNDB_TESTING_EVENT_H_

#include "common/mutex.h"

namespace attndb::test {

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
