// Who waits for a store that another process writes to, so that a writer that can pause lets it
// pass: a lock (flock(2)) of a file beside the store's own, which ends with its process.
//
// Errors:  none: where it can't be told, nobody waits.
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
