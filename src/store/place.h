// Checks that the paths of an open store still lead to the opened files. SQLite continues to write
// to a file that was moved, but segments are written where the path leads. A context that is stored
// then would lie in two places, and be lost.
//
// Method:  compares the paths by device and inode before each writing transaction begins, and again
//          after it is committed, before it is acknowledged. If the store was moved meanwhile, the
//          call fails, and the store takes no more writes. Handles of folders would continue to
//          write into the moved folder; SQLite names its log by path and could not follow them. A
//          folder may be moved away and back in between: each file still lies where it was written.
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
  // Records the folder or file that the path leads to now.
  Status Add(const std::string& path);
  // Checks that all paths lead to the recorded files.
  // Cost: one system call per path.
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
