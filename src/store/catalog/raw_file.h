// The raw bytes of a database file, read beside SQLite's connections to it.
//
// Method:  opened by SQLite's own VFS. A plain open() is wrong: its close() would drop the locks
//          that SQLite's connections of this process have on the file (POSIX: fcntl locks belong to
//          the process).
// Threads: for one thread at a time.
#ifndef ATTNDB_STORE_CATALOG_RAW_FILE_H_
#define ATTNDB_STORE_CATALOG_RAW_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "attndb/result.h"

struct sqlite3_file;

namespace attndb::store {

class RawFile {
 public:
  // Errors: kUnsupported (SQLite has no such VFS), kResourceExhausted, kIoError.
  static Result<RawFile> Open(const std::string& path);

  // Fills `bytes` from an offset on. Errors: kCorruption (the file ends too early), kIoError.
  Status Read(uint64_t offset, std::span<std::byte> bytes) const;
  // The file's length. Errors: kIoError.
  Result<uint64_t> NumBytes() const;

 private:
  struct Closer {
    void operator()(sqlite3_file* file) const;
  };
  struct NameFreer {
    void operator()(const char* name) const;
  };

  explicit RawFile(std::string path) : path_(std::move(path)) {}

  std::string path_;
  std::unique_ptr<const char, NameFreer> name_;  // SQLite points to it while it is open.
  std::unique_ptr<std::max_align_t[]> memory_;   // The memory that file_ points to.
  std::unique_ptr<sqlite3_file, Closer> file_;
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CATALOG_RAW_FILE_H_
