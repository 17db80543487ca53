// The number of cores that this process may use. Options that take 0 as "all cores" use this
// number.
//
// Errors:  none; at least one.
// Threads: thread-safe. Counts the cores of the calling thread; threads that it starts inherit
//          them.
#ifndef ATTNDB_NUM_CORES_H_
#define ATTNDB_NUM_CORES_H_

#include <cstdint>

#include "attndb/export.h"
#include "attndb/require_cpp20.h"

namespace attndb {

// Returns fewer cores than the machine has if an affinity limits them (taskset, cpusets of
// containers, batch systems). Asks the system at each call, because affinities change.
ATTNDB_EXPORT uint32_t NumCores();

}  // namespace attndb

#endif  // ATTNDB_NUM_CORES_H_
