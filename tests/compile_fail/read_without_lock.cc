// Clang refuses to read a member that a mutex guards without holding it.
// Error: requires holding mutex
// Compiler: clang
#include "common/mutex.h"

struct Counter {
  mutable attndb::Mutex mutex;
  int value ATTNDB_GUARDED_BY(mutex) = 0;
};

int Read(const Counter& counter) {
#ifdef ATTNDB_MISUSE
  return counter.value;
#else
  attndb::MutexLock lock(&counter.mutex);
  return counter.value;
#endif
}
