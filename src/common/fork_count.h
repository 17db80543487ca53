// Tells a forked child process from its parent. A child has its parent's memory, but none of its
// threads. It would wait for ever for these threads, or for a mutex that one of them held.
//
// Errors:  none.
// Threads: thread-safe.
#ifndef ATTNDB_COMMON_FORK_COUNT_H_
#define ATTNDB_COMMON_FORK_COUNT_H_

#include <cstdint>

namespace attndb {

// Grows by one in each fork, from the first call of the process on: two values differ if they were
// asked for in a process and in a fork of it. Costs a load.
uint64_t ForkCount();

}  // namespace attndb

#endif  // ATTNDB_COMMON_FORK_COUNT_H_
