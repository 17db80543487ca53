// Ctrl-C (SIGINT) and SIGTERM as a flag that long work looks at, so that it ends cleanly.
//
// Threads: the flag may be read from any thread; one InterruptScope at a time.
#ifndef ATTNDB_CLI_COMMON_INTERRUPT_H_
#define ATTNDB_CLI_COMMON_INTERRUPT_H_

#include <csignal>
#include <cstdint>
#include <functional>

#include "cli/common/progress.h"

namespace attndb::cli {

// While it lives, the first signal only sets the flag; the second ends the process as usual.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();  // Restores the handlers of before.
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

 private:
  struct sigaction old_int_;
  struct sigaction old_term_;
};

// True from the first signal on, until ClearInterrupt.
bool Interrupted();
void ClearInterrupt();

// Waits until there is something to read, or a signal has come or comes: false. A signal that comes
// just before a read would end no read: this sees it, whatever thread it came to.
bool WaitToRead(int file);

// Progress of long work, as the DB calls it: shown on the line, and cancelled by a signal.
std::function<bool(uint64_t done, uint64_t total)> ShowUntilInterrupted(ProgressLine* line);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_INTERRUPT_H_
