// The version of the library and of the formats that it writes.
#ifndef ATTNDB_VERSION_H_
#define ATTNDB_VERSION_H_

#include "attndb/export.h"

namespace attndb {

// "0.1.0"
ATTNDB_EXPORT const char* Version();

// The instruction set of the kernels: "avx512vnni", "avx512", "avx2" or "scalar". ATTNDB_ISA=... in
// the environment forces one.
ATTNDB_EXPORT const char* KernelIsa();

// The fastest kernels that this CPU can run, by the same names. A build for another machine
// (ATTNDB_KERNELS=native in CMake) may lack them.
ATTNDB_EXPORT const char* CpuIsa();

// The instruction sets that the active kernels were compiled for, by the names of the compiler's
// flags: "AVX2, FMA, F16C"; "" for "scalar" kernels, which every CPU of the platform runs.
ATTNDB_EXPORT const char* KernelInstructionSets();

}  // namespace attndb

#endif  // ATTNDB_VERSION_H_
