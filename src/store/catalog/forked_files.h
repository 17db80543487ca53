// Catalog files that a process has open, so that a fork of it does not open them a second time.
//
// SQLite keeps by process which files it has open and how they are locked. A fork inherits that,
// but not the system's locks, and would read and write the file without any; nor may it close what
// it inherited.
//
// Threads: thread-safe.
// Source:  https://www.sqlite.org/howtocorrupt.html, 2.6.
#ifndef ATTNDB_STORE_CATALOG_FORKED_FILES_H_
#define ATTNDB_STORE_CATALOG_FORKED_FILES_H_

#include <string>
#include <utility>

#include "attndb/status.h"

namespace attndb::store {

// This process has a file open, as long as this lives.
class FileInUse {
 public:
  FileInUse() = default;
  ~FileInUse();
  FileInUse(const FileInUse&) = delete;
  FileInUse& operator=(const FileInUse&) = delete;

  // Called once, before SQLite sees the file. A file that is not there is in nobody's use.
  // Errors: kFailedPrecondition (the process that this is a fork of had it open).
  Status Begin(const std::string& path);

 private:
  std::pair<uint64_t, uint64_t> file_;  // Device and inode; zeros: none.
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CATALOG_FORKED_FILES_H_
