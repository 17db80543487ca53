// Properties of this machine: processor, memory and its bandwidth, and the disk of a store.
//
// Threads: measurements start threads of their own and end them; one call at a time.
// Units:   bytes, seconds, bytes per second.
// Errors:  kIoError (a folder can't be written to or measured).
#ifndef ATTNDB_CLI_COMMON_MACHINE_H_
#define ATTNDB_CLI_COMMON_MACHINE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "attndb/result.h"

namespace attndb::cli {

struct CpuInfo {
  std::string model;
  uint32_t num_cores = 0;         // Cores that this process may use.
  uint64_t last_cache_bytes = 0;  // Bytes of the last-level cache; 0 = unknown.
};

struct MemoryInfo {
  uint64_t total_bytes = 0;
  uint64_t available_bytes = 0;  // Limited by a cgroup, if there is one.
};

struct DiskInfo {
  std::string filesystem;  // "ext4", "tmpfs", ..., or its magic number.
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;  // Bytes that this user may still write.
  bool writable = false;
};

struct DiskSpeed {
  double fsync_seconds = 0;          // Median of writing 4 KiB and fsync.
  double read_bytes_per_second = 0;  // Sequential; past the page cache if `direct`.
  bool direct = false;
};

CpuInfo ReadCpuInfo();
MemoryInfo ReadMemoryInfo();

// Bytes to read to defeat the last-level cache: four times its size, between 256 MiB and 2 GiB, and
// at most a quarter of the available memory.
uint64_t BandwidthBufferBytes(const CpuInfo& cpu, const MemoryInfo& memory);

// Bytes per second: the best of several passes over `buffer_bytes` of memory, which `num_threads`
// threads read together.
double MeasureReadBandwidth(uint32_t num_threads, uint64_t buffer_bytes);

// Why the kernels in use (`isa`) are slower than the CPU allows (`cpu_isa`); empty if they are not.
// `asked` is the value of ATTNDB_ISA, empty if it is not set.
std::string SlowKernelsText(std::string_view isa, std::string_view cpu_isa, std::string_view asked);

// The nearest folder above `path` that is there, `path` itself included.
std::string NearestFolder(const std::string& path);

Result<DiskInfo> ReadDiskInfo(const std::string& folder);

// Writes a file of `file_bytes` into `folder`, reads it back and removes it.
Result<DiskSpeed> MeasureDisk(const std::string& folder, uint64_t file_bytes);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_MACHINE_H_
