// Where an open store lies: whether its paths still lead to what was opened. SQLite goes on writing
// to a file that was moved, and segments are written where the path leads: what is stored then is
// in two places, and lost.
//
// Method:  paths are compared by device and inode before each transaction that writes begins, and
//          again once it is committed, before it is acknowledged: what was moved away meanwhile
//          makes the call fail, and the store takes no more writes. Handles of folders would write
//          on into what was moved; SQLite, which names its log by its path, could not follow them.
//          A folder that is moved away and back in between is none the worse: each file lies where
//          it was written.
// Errors:  kIoError (a path leads nowhere, or elsewhere).
// Threads: thread-safe once the last path was added.
#ifndef ATTNDB_STORE_PLACE_H_
#define ATTNDB_STORE_PLACE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "attndb/status.h"

namespace attndb::store {

class Place {
 public:
  // Takes note of the folder or file that the path leads to now.
  Status Add(const std::string& path);
  // Whether all paths lead to what they led to.
  // Cost: a system call for each.
  Status Check() const;

 private:
  struct Identity {
    uint64_t device = 0;
    uint64_t inode = 0;
    friend bool operator==(const Identity&, const Identity&) = default;
  };
  static Status Identify(const std::string& path, Identity* identity);

  std::vector<std::pair<std::string, Identity>> paths_;
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_PLACE_H_
