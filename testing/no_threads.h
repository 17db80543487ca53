// A system that starts no thread more, as in a container that has reached its limit: for as long as
// this lives, threads are given a stack that fits into no address space.
//
// Scope:   threads that are started with default attributes, as std::thread does.
// Threads: one.
#ifndef ATTNDB_TESTING_NO_THREADS_H_
#define ATTNDB_TESTING_NO_THREADS_H_

#include <pthread.h>

#include <cstddef>

#include "common/check.h"

namespace attndb::test {

class NoThreads {
 public:
  NoThreads() {
    ATTNDB_CHECK(pthread_getattr_default_np(&before_) == 0);
    pthread_attr_t none = before_;
    ATTNDB_CHECK(pthread_attr_setstacksize(&none, size_t{1} << 47) == 0);
    ATTNDB_CHECK(pthread_setattr_default_np(&none) == 0);
  }
  ~NoThreads() { ATTNDB_CHECK(pthread_setattr_default_np(&before_) == 0); }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  pthread_attr_t before_;
};

}  // namespace attndb::test

#endif  // ATTNDB_TESTING_NO_THREADS_H_
