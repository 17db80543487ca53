#include "cli/common/interrupt.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>

namespace attndb::cli {
namespace {

// The globals of the CLI: a signal handler has no other way to reach the program. Lock-free, so
// legal in a handler; relaxed, as nothing else is published by them.
std::atomic<bool> g_interrupted{false};
std::atomic<int> g_wakes{-1};  // An eventfd that can be read from the first signal on.
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

void OnSignal(int /*signal*/) {
  const int error = errno;
  g_interrupted.store(true, std::memory_order_relaxed);
  // Without one, as where there are no more files, a read that waits is ended by the signal itself.
  eventfd_write(g_wakes.load(std::memory_order_relaxed), 1);
  errno = error;
}

// Once, for as long as the process lives.
void MakeWaker() {
  if (g_wakes.load(std::memory_order_relaxed) >= 0) return;
  g_wakes.store(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), std::memory_order_relaxed);
}

// Reads wake-ups that ended no wait. WaitToRead then checks the flag.
void Drain() {
  eventfd_t ignored = 0;
  eventfd_read(g_wakes.load(std::memory_order_relaxed), &ignored);
}

}  // namespace

InterruptScope::InterruptScope() : old_int_(), old_term_() {
  MakeWaker();
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

void ClearInterrupt() {
  g_interrupted.store(false, std::memory_order_relaxed);
  Drain();
}

bool WaitToRead(int file) {
  std::array<pollfd, 2> files = {
      pollfd{.fd = file, .events = POLLIN, .revents = 0},
      pollfd{.fd = g_wakes.load(std::memory_order_relaxed), .events = POLLIN, .revents = 0}};
  while (!Interrupted()) {
    const int num_ready = poll(files.data(), files.size(), -1);
    if (num_ready < 0 && errno != EINTR) return true;  // The read reports the error.
    if (num_ready > 0 && files[0].revents != 0) return !Interrupted();
    if (num_ready > 0 && !Interrupted()) Drain();  // The wake-up of a signal that was cleared.
  }
  return false;
}

std::function<bool(uint64_t, uint64_t)> ShowUntilInterrupted(ProgressLine* line) {
  return [line](uint64_t done, uint64_t total) {
    line->Update(done, total);
    return !Interrupted();
  };
}

}  // namespace attndb::cli
