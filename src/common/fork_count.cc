#include "common/fork_count.h"

#include <pthread.h>

#include <atomic>

namespace attndb {
namespace {

// A number of the process, like its id. Relaxed: a fork begins with one thread.
std::atomic<uint64_t> num_forks = 0;

void CountFork() { num_forks.fetch_add(1, std::memory_order_relaxed); }

}  // namespace

uint64_t ForkCount() {
  [[maybe_unused]] static const int kRegistered = pthread_atfork(nullptr, nullptr, CountFork);
  return num_forks.load(std::memory_order_relaxed);
}

}  // namespace attndb
