#include "common/free_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>

namespace attndb {
namespace {

constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

// The number that follows `key` in a file of lines "key number".
std::optional<uint64_t> ReadField(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string found;
    uint64_t number = 0;
    if (words >> found >> number && found == key) return number;
  }
  return std::nullopt;
}

// The number that a file holds; none for "max".
std::optional<uint64_t> ReadNumber(const std::string& path) {
  std::ifstream file(path);
  uint64_t number = 0;
  if (file >> number) return number;
  return std::nullopt;
}

uint64_t FreeOfMachine(const std::string& root) {
  if (const auto kib = ReadField(root + "/proc/meminfo", "MemAvailable:")) return *kib * 1024;
  return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<uint64_t>(sysconf(_SC_PAGE_SIZE)) / 3 * 2;
}

// The files of a control group with its memory figures.
struct GroupFiles {
  const char* limit;
  const char* usage;
  const char* cache;  // The field of memory.stat for cached files.
};
constexpr GroupFiles kVersion2 = {"/memory.max", "/memory.current", "file"};
constexpr GroupFiles kVersion1 = {"/memory.limit_in_bytes", "/memory.usage_in_bytes",
                                  "total_cache"};

uint64_t FreeOfGroup(const std::string& folder, const GroupFiles& files) {
  const auto limit = ReadNumber(folder + files.limit);
  const auto usage = ReadNumber(folder + files.usage);
  if (!limit || !usage) return kNoLimit;
  const uint64_t cache = ReadField(folder + "/memory.stat", files.cache).value_or(0);
  const uint64_t used = *usage - std::min(*usage, cache);
  return *limit - std::min(*limit, used);
}

// The least of the group `path` under `mount` and of all groups that it is in. In a container the
// path may be that outside, of which only the group at the mount is seen.
uint64_t FreeOfGroups(const std::string& mount, std::string path, const GroupFiles& files) {
  uint64_t free_bytes = FreeOfGroup(mount, files);
  while (path.size() > 1) {
    free_bytes = std::min(free_bytes, FreeOfGroup(mount + path, files));
    path.resize(path.rfind('/'));
  }
  return free_bytes;
}

// Whether a list of controllers, such as "cpu,memory", contains the memory controller.
bool HasMemory(const std::string& controllers) {
  std::istringstream list(controllers);
  std::string name;
  while (std::getline(list, name, ',')) {
    if (name == "memory") return true;
  }
  return false;
}

}  // namespace

uint64_t FreeMemoryBytes(const std::string& root) {
  uint64_t free_bytes = FreeOfMachine(root);
  std::ifstream groups(root + "/proc/self/cgroup");
  std::string line;
  while (std::getline(groups, line)) {  // "4:memory:/path", or "0::/path" of version 2.
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) {
      free_bytes = std::min(free_bytes, FreeOfGroups(root + "/sys/fs/cgroup", path, kVersion2));
    } else if (HasMemory(controllers)) {
      free_bytes =
          std::min(free_bytes, FreeOfGroups(root + "/sys/fs/cgroup/memory", path, kVersion1));
    }
  }
  return free_bytes;
}

}  // namespace attndb
