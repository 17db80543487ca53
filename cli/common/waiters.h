// Tells whether a process waits for a store that another process writes to, so that a pausing
// writer can let it pass. A waiting process locks (flock(2)) a file beside the store's own; the
// lock ends with the process.
//
// Errors:  none: if it is unknown, nobody waits.
// Threads: thread-compatible.
#ifndef ATTNDB_CLI_COMMON_WAITERS_H_
#define ATTNDB_CLI_COMMON_WAITERS_H_

#include <string>

namespace attndb::cli {

// While it lives, the store's writer can see that somebody waits.
class Waiter {
 public:
  Waiter() = default;
  ~Waiter();
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  // Says that it waits for the store, unless it has said so. May be called again and again.
  void Wait(const std::string& db_path);

 private:
  int fd_ = -1;
};

bool SomebodyWaits(const std::string& db_path);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_WAITERS_H_
