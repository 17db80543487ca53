// Records the catalog files that a process has open, so that a forked child does not open them a
// second time.
//
// SQLite keeps the open files of a process and their locks in memory. A forked child inherits this
// memory, but not the system's locks, and would read and write the file without locks. The child
// must not close the inherited files either.
//
// Threads: thread-safe.
// Source:  https://www.sqlite.org/howtocorrupt.html, 2.6.
#ifndef ATTNDB_STORE_CATALOG_FORKED_FILES_H_
#define ATTNDB_STORE_CATALOG_FORKED_FILES_H_

#include <string>
#include <utility>

#include "attndb/status.h"

namespace attndb::store {

// While this object lives, this process has a file open.
class FileInUse {
 public:
  FileInUse() = default;
  ~FileInUse();
  FileInUse(const FileInUse&) = delete;
  FileInUse& operator=(const FileInUse&) = delete;

  // Called once, before SQLite opens the file. A missing file is not in use.
  // Errors: kFailedPrecondition (the parent process had the file open at the fork).
  Status Begin(const std::string& path);

 private:
  std::pair<uint64_t, uint64_t> file_;  // Device and inode; zeros: none.
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CATALOG_FORKED_FILES_H_
