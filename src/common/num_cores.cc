#include "attndb/num_cores.h"

#include <sched.h>

#include <algorithm>
#include <thread>

namespace attndb {

uint32_t NumCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  // Fails where a kernel counts more cores than the set holds.
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    return static_cast<uint32_t>(std::max(1, CPU_COUNT(&set)));
  }
  return std::max(1U, std::thread::hardware_concurrency());
}

}  // namespace attndb
