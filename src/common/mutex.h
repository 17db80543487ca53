// Mutex, its guard and a condition variable that clang's -Wthread-safety checks.
//
// Threads: thread-safe, of course. Not recursive.
// Source:  https://clang.llvm.org/docs/ThreadSafetyAnalysis.html (the annotations).
#ifndef ATTNDB_COMMON_MUTEX_H_
#define ATTNDB_COMMON_MUTEX_H_

#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define ATTNDB_THREAD_ANNOTATION_(x) __attribute__((x))
#else
#define ATTNDB_THREAD_ANNOTATION_(x)
#endif

#define ATTNDB_CAPABILITY(x) ATTNDB_THREAD_ANNOTATION_(capability(x))
#define ATTNDB_SCOPED_CAPABILITY ATTNDB_THREAD_ANNOTATION_(scoped_lockable)
#define ATTNDB_GUARDED_BY(x) ATTNDB_THREAD_ANNOTATION_(guarded_by(x))
#define ATTNDB_PT_GUARDED_BY(x) ATTNDB_THREAD_ANNOTATION_(pt_guarded_by(x))
#define ATTNDB_REQUIRES(...) ATTNDB_THREAD_ANNOTATION_(requires_capability(__VA_ARGS__))
#define ATTNDB_EXCLUDES(...) ATTNDB_THREAD_ANNOTATION_(locks_excluded(__VA_ARGS__))
#define ATTNDB_ACQUIRE(...) ATTNDB_THREAD_ANNOTATION_(acquire_capability(__VA_ARGS__))
#define ATTNDB_RELEASE(...) ATTNDB_THREAD_ANNOTATION_(release_capability(__VA_ARGS__))
#define ATTNDB_RETURN_CAPABILITY(x) ATTNDB_THREAD_ANNOTATION_(lock_returned(x))
#define ATTNDB_NO_THREAD_SAFETY_ANALYSIS ATTNDB_THREAD_ANNOTATION_(no_thread_safety_analysis)

namespace attndb {

class ATTNDB_CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() ATTNDB_ACQUIRE() { mutex_.lock(); }
  void Unlock() ATTNDB_RELEASE() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

// Holds a mutex for a scope. Inside, the mutex may be released and taken again.
class ATTNDB_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex* mutex) ATTNDB_ACQUIRE(mutex) : mutex_(mutex) { mutex_->Lock(); }
  ~MutexLock() ATTNDB_RELEASE() {
    if (held_) mutex_->Unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void Unlock() ATTNDB_RELEASE() {
    mutex_->Unlock();
    held_ = false;
  }
  void Lock() ATTNDB_ACQUIRE() {
    mutex_->Lock();
    held_ = true;
  }

 private:
  Mutex* const mutex_;
  bool held_ = true;
};

class CondVar {
 public:
  // Lets `mutex` go while asleep. May wake without a cause: wait in a loop over the condition.
  void Wait(Mutex* mutex) ATTNDB_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex->mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }
  void NotifyOne() { condition_.notify_one(); }
  void NotifyAll() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace attndb

#endif  // ATTNDB_COMMON_MUTEX_H_
