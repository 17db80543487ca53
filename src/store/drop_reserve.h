// A file that keeps some of the disk free for the call that makes room: on a full disk, a Drop has
// to write before it can remove.
//
// Contents: bytes that do not compress, of no meaning; its blocks are what counts. Anyone may
//           remove it while the store is closed.
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
  // What the catalog's log takes for a Drop is some 40 KiB and 10 bytes a token of the context.
  static constexpr size_t kBytes = size_t{1} << 20;

  // `file_system` must outlive it. Nothing is reserved until Take.
  DropReserve(storage::FileSystem* file_system, std::string path)
      : file_system_(file_system), path_(std::move(path)) {}

  // Writes the file, unless it stands with all its bytes. Where there is no room for it, nothing is
  // left of it, and the next call tries again.
  void Take() ATTNDB_EXCLUDES(mutex_);
  // Removes the file, so that its bytes are free.
  void Release() ATTNDB_EXCLUDES(mutex_);

 private:
  bool Stands() const;
  Status Write() const;

  storage::FileSystem* const file_system_;
  const std::string path_;
  Mutex mutex_;
  bool taken_ ATTNDB_GUARDED_BY(mutex_) = false;
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_DROP_RESERVE_H_
