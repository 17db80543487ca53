// Measures the times of attention's steps on this machine, with the real kernels.
//
// Cost:    a few hundred milliseconds and a buffer of four times the last-level cache, at most 256
//          MiB: streams are read from memory, not from a cache.
// Threads: starts its own threads to measure the bandwidth of all cores together, and ends them.
//          Not for two threads at a time: they would measure each other.
#ifndef ATTNDB_PRICES_MEASURE_MACHINE_H_
#define ATTNDB_PRICES_MEASURE_MACHINE_H_

#include <cstdint>

#include "attndb/result.h"
#include "planner/machine_constants.h"

namespace attndb::internal {

// Fixed constants, with the processor, instruction set and number of cores of this machine.
planner::MachineConstants DefaultMachine();

// Bytes of the buffer for measuring streams.
uint64_t MeasuredBytes();

// Measures this machine. Errors: kResourceExhausted (no memory for the buffer).
Result<planner::MachineConstants> MeasureMachine(uint64_t buffer_bytes);

}  // namespace attndb::internal

#endif  // ATTNDB_PRICES_MEASURE_MACHINE_H_
