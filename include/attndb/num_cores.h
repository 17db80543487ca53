// How many cores this process may use: what `all cores` means, wherever a number of threads is 0.
//
// Errors:  none; at least one.
// Threads: thread-safe; cores are those of the calling thread, which the threads that it starts
//          inherit.
#ifndef ATTNDB_NUM_CORES_H_
#define ATTNDB_NUM_CORES_H_

#include <cstdint>

#include "attndb/export.h"
#include "attndb/require_cpp20.h"

namespace attndb {

// Fewer than the machine has where an affinity says so (taskset, cpusets of containers, batch
// systems). Asks the system each time: affinities change.
ATTNDB_EXPORT uint32_t NumCores();

}  // namespace attndb

#endif  // ATTNDB_NUM_CORES_H_
