// How much memory this process may take now: what the machine has free, or what is left of the
// limits of the control groups that the process is in (containers, services), if that is less.
//
// Errors:  none: a limit that can't be read is none.
// Threads: stateless.
// Source:  proc(5), cgroups(7); memory.max and memory.stat of version 2, limit_in_bytes of version
//          1.
#ifndef ATTNDB_COMMON_FREE_MEMORY_H_
#define ATTNDB_COMMON_FREE_MEMORY_H_

#include <cstdint>
#include <string>

namespace attndb {

// Bytes; what the kernel could give back from its cache of files counts as free. `root`: where the
// machine's files begin, for tests.
uint64_t FreeMemoryBytes(const std::string& root = "");

}  // namespace attndb

#endif  // ATTNDB_COMMON_FREE_MEMORY_H_
