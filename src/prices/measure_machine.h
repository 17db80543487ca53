// Measures what attention's steps take on this machine, through the kernels that run them.
//
// Cost:    a few hundred milliseconds and a buffer of four times the last-level cache, 256 MiB at
//          most: streams are read from memory, not from a cache.
// Threads: starts threads of its own to measure what all cores read together, and ends them. Not
//          for two threads at a time: they would measure each other.
#ifndef ATTNDB_PRICES_MEASURE_MACHINE_H_
#define ATTNDB_PRICES_MEASURE_MACHINE_H_

#include <cstdint>

#include "attndb/result.h"
#include "planner/machine_constants.h"

namespace attndb::internal {

// Fixed constants, with the processor, instruction set and number of cores that they stand for.
planner::MachineConstants DefaultMachine();

// Bytes of the buffer that streams are measured over.
uint64_t MeasuredBytes();

// Measures this machine. Errors: kResourceExhausted (no memory for the buffer).
Result<planner::MachineConstants> MeasureMachine(uint64_t buffer_bytes);

}  // namespace attndb::internal

#endif  // ATTNDB_PRICES_MEASURE_MACHINE_H_
