// State that a process has once, for example what the system keeps by process. A forked child finds
// it consistent: its mutex is held across each fork.
//
//   struct Held { std::set<int> files; void BeginFork() { files.clear(); } };
//   ProcessState<Held>::Use([](Held* held) { held->files.insert(3); });
//
// Fork:    T::BeginFork() is called in the child before any other use of the state there. It may do
//          anything that needs no other thread.
// Life:    made by its first use, never destroyed: objects that outlive main may use it.
// Threads: thread-safe. The mutex is a leaf.
#ifndef ATTNDB_COMMON_PROCESS_STATE_H_
#define ATTNDB_COMMON_PROCESS_STATE_H_

#include <pthread.h>

#include <memory>

#include "common/mutex.h"

namespace attndb {

template <typename T>
class ProcessState {
 public:
  template <typename F>
  static auto Use(const F& f) {
    ProcessState& state = Of();
    MutexLock lock(&state.mutex_);
    return f(&state.value_);
  }

 private:
  static ProcessState& Of() {
    static ProcessState& state = *Make().release();
    return state;
  }
  static std::unique_ptr<ProcessState> Make() {
    pthread_atfork(Lock, Unlock, BeginFork);
    return std::make_unique<ProcessState>();
  }
  static void Lock() ATTNDB_NO_THREAD_SAFETY_ANALYSIS { Of().mutex_.Lock(); }
  static void Unlock() ATTNDB_NO_THREAD_SAFETY_ANALYSIS { Of().mutex_.Unlock(); }
  static void BeginFork() ATTNDB_NO_THREAD_SAFETY_ANALYSIS {
    Of().value_.BeginFork();
    Unlock();
  }

  Mutex mutex_;
  T value_ ATTNDB_GUARDED_BY(mutex_);
};

}  // namespace attndb

#endif  // ATTNDB_COMMON_PROCESS_STATE_H_
