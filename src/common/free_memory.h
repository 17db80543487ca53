// The memory that this process may take now: the machine's free memory, or the rest of the limits
// of the process's control groups (containers, services), if that is less.
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

// Returns bytes. Memory that the kernel could free from its file cache counts as free. `root`: the
// root of the machine's files, for tests.
uint64_t FreeMemoryBytes(const std::string& root = "");

}  // namespace attndb

#endif  // ATTNDB_COMMON_FREE_MEMORY_H_
