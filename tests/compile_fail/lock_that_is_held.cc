// Clang refuses to take a mutex twice, which would wait for ever.
// Error: acquiring mutex 'mutex' that is already held
// Compiler: clang
#include "common/mutex.h"

attndb::Mutex mutex;

void TakeOnce() {
  attndb::MutexLock lock(&mutex);
#ifdef ATTNDB_MISUSE
  mutex.Lock();
#endif
}
