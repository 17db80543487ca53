// A file that reserves disk space for the call that makes room. On a full disk, a Drop must write
// before it can remove. So must the Open that precedes the Drop of another process.
//
// Size:     kBytes; less after an Open or a Drop used a part of it on a full disk.
// Contents: meaningless bytes that do not compress; only the file's blocks matter. Anyone may
//           remove the file while the store is closed.
// Threads:  thread-safe.
#ifndef ATTNDB_STORE_DROP_RESERVE_H_
#define ATTNDB_STORE_DROP_RESERVE_H_

#include <string>

#include "attndb/status.h"
#include "common/mutex.h"
#include "storage/io/file_system.h"

namespace attndb::store {

class DropReserve {
 public:
  // For a Drop, the catalog's log takes about 40 KiB and 10 bytes per token of the context.
  static constexpr size_t kBytes = size_t{1} << 20;
  // A smaller file has a multiple of this. Opening the catalog takes less: 32 KiB for the locks of
  // its readers, and some blocks for names and for a log.
  static constexpr size_t kStepBytes = size_t{64} << 10;

  // `file_system` must outlive it. Nothing is reserved until Take.
  DropReserve(storage::FileSystem* file_system, std::string path)
      : file_system_(file_system), path_(std::move(path)) {}

  // Writes the file, unless it exists with all its bytes. If the disk has no room for kBytes, the
  // file gets a smaller size, at most its size before Release, and the next call tries again.
  void Take() ATTNDB_EXCLUDES(mutex_);
  // Removes the file to free its bytes, and returns their number.
  uint64_t Release() ATTNDB_EXCLUDES(mutex_);

 private:
  uint64_t FileBytes() const;
  // Free bytes of the disk; the largest number if the disk does not say.
  uint64_t FreeBytes() const;
  // Returns false if there is no room; then nothing is left of the file.
  bool Write(size_t num_bytes) const;
  Status TryWrite(size_t num_bytes) const;

  storage::FileSystem* const file_system_;
  const std::string path_;
  Mutex mutex_;
  bool taken_ ATTNDB_GUARDED_BY(mutex_) = false;  // All of it.
  uint64_t released_bytes_ ATTNDB_GUARDED_BY(mutex_) = 0;
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_DROP_RESERVE_H_
