#include "cli/common/machine.h"

#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "attndb/num_cores.h"
#include "cli/common/progress.h"
#include "cli/common/units.h"

namespace attndb::cli {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr int kBandwidthPasses = 6;

// The rest of the line of /proc/cpuinfo or /proc/meminfo that begins with `key`.
std::string ValueOf(const char* path, const std::string& key) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with(key)) continue;
    const size_t colon = line.find(':');
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    if (colon != std::string::npos && begin != std::string::npos) return line.substr(begin);
  }
  return "";
}

uint64_t LeadingNumber(const std::string& text) {
  uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

std::string FirstWord(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

// The memory that a cgroup leaves us; UINT64_MAX without a limit.
uint64_t CgroupAvailable() {
  const std::string limit = FirstWord("/sys/fs/cgroup/memory.max");
  if (limit.empty() || limit == "max") return UINT64_MAX;
  const uint64_t used = LeadingNumber(FirstWord("/sys/fs/cgroup/memory.current"));
  const uint64_t bytes = LeadingNumber(limit);
  return bytes - std::min(bytes, used);
}

uint64_t LastCacheBytes() {
  // "36864K" of the highest level that the first core knows.
  for (int index = 4; index >= 0; --index) {
    const std::string size =
        FirstWord("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/size");
    const Result<uint64_t> bytes = ParseBytes(size.empty() ? "-" : size);
    if (bytes.ok()) return *bytes;
  }
  const int64_t known = sysconf(_SC_LEVEL3_CACHE_SIZE);
  return known > 0 ? static_cast<uint64_t>(known) : 0;
}

using Words = uint64_t __attribute__((vector_size(64)));

// Xor of `num_words` blocks of 64 bytes, four at a time, as many as registers of any x86 hold, so
// that loads do not wait for each other.
uint64_t XorBlocks(const Words* blocks, size_t num_blocks) {
  constexpr size_t kUnroll = 4;
  Words sums[kUnroll] = {};
  for (size_t i = 0; i + kUnroll <= num_blocks; i += kUnroll) {
    for (size_t j = 0; j < kUnroll; ++j) sums[j] ^= blocks[i + j];
  }
  uint64_t result = 0;
  for (const Words& sum : sums) {
    for (size_t lane = 0; lane < 8; ++lane) result ^= sum[lane];
  }
  return result;
}

}  // namespace

CpuInfo ReadCpuInfo() {
  CpuInfo info;
  info.model = ValueOf("/proc/cpuinfo", "model name");
  if (info.model.empty()) info.model = "unknown";
  info.num_cores = NumCores();
  info.last_cache_bytes = LastCacheBytes();
  return info;
}

MemoryInfo ReadMemoryInfo() {
  MemoryInfo info;
  info.total_bytes = LeadingNumber(ValueOf("/proc/meminfo", "MemTotal")) * 1024;
  info.available_bytes =
      std::min(LeadingNumber(ValueOf("/proc/meminfo", "MemAvailable")) * 1024, CgroupAvailable());
  return info;
}

uint64_t BandwidthBufferBytes(const CpuInfo& cpu, const MemoryInfo& memory) {
  const uint64_t wanted = std::clamp(4 * cpu.last_cache_bytes, 256 * kMiB, 2048 * kMiB);
  return std::max(std::min(wanted, memory.available_bytes / 4), 16 * kMiB) / kMiB * kMiB;
}

double MeasureReadBandwidth(uint32_t num_threads, uint64_t buffer_bytes) {
  const size_t num_blocks = buffer_bytes / sizeof(Words);
  std::vector<Words> buffer(num_blocks);
  std::memset(buffer.data(), 1, num_blocks * sizeof(Words));
  // Keeps the compiler from dropping the loads; relaxed, because no thread reads it.
  std::atomic<uint64_t> sink{0};
  double best_seconds = 1e30;
  for (int pass = 0; pass < kBandwidthPasses; ++pass) {
    const double start = MonotonicSeconds();
    std::vector<std::jthread> threads;
    for (uint32_t t = 0; t < num_threads; ++t) {
      threads.emplace_back([&, t] {
        const size_t begin = num_blocks * t / num_threads;
        const size_t end = num_blocks * (t + 1) / num_threads;
        sink.fetch_xor(XorBlocks(buffer.data() + begin, end - begin), std::memory_order_relaxed);
      });
    }
    threads.clear();  // Joins.
    best_seconds = std::min(best_seconds, MonotonicSeconds() - start);
  }
  return static_cast<double>(buffer_bytes) / best_seconds;
}

std::string SlowKernelsText(std::string_view isa, std::string_view cpu_isa,
                            std::string_view asked) {
  const std::string text = "the " + std::string(isa) + " kernels are in use: ";
  if (isa == cpu_isa) return isa == "scalar" ? text + "this CPU has no AVX2" : "";
  const std::string better = "this CPU can run " + std::string(cpu_isa);
  if (asked == isa) return text + "ATTNDB_ISA asks for them, " + better;
  return text + better +
         ", which this build lacks; 'make build', or CMake with -DATTNDB_KERNELS=all, adds it";
}

std::string NearestFolder(const std::string& path) {
  std::error_code error;
  std::filesystem::path folder = std::filesystem::absolute(path, error);
  while (!std::filesystem::is_directory(folder, error) && folder.has_relative_path()) {
    folder = folder.parent_path();
  }
  return folder.string();
}

}  // namespace attndb::cli
