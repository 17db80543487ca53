#include "cli/common/interrupt.h"

#include <atomic>

namespace attndb::cli {
namespace {

// The one global of the CLI: a signal handler has no other way to reach the program. Lock-free, so
// legal in a handler; relaxed, as nothing else is published by it.
std::atomic<bool> g_interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void OnSignal(int /*signal*/) { g_interrupted.store(true, std::memory_order_relaxed); }

}  // namespace

InterruptScope::InterruptScope() : old_int_(), old_term_() {
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  sigemptyset(&action.sa_mask);
  // No SA_RESTART: a blocked read of the terminal returns. SA_RESETHAND: the second one ends us.
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, &old_int_);
  sigaction(SIGTERM, &action, &old_term_);
}

InterruptScope::~InterruptScope() {
  sigaction(SIGINT, &old_int_, nullptr);
  sigaction(SIGTERM, &old_term_, nullptr);
}

bool Interrupted() { return g_interrupted.load(std::memory_order_relaxed); }
void ClearInterrupt() { g_interrupted.store(false, std::memory_order_relaxed); }

std::function<bool(uint64_t, uint64_t)> ShowUntilInterrupted(ProgressLine* line) {
  return [line](uint64_t done, uint64_t total) {
    line->Update(done, total);
    return !Interrupted();
  };
}

}  // namespace attndb::cli
