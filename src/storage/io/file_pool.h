// Files that are opened when they are read. The pool keeps the most recently read files open, so
// that a process can read from more files than it may have open at a time.
//
// Names:   a file must keep its name as long as it is read.
// Errors:  those of the base. A file that is gone at a later read is kNotFound.
// Threads: thread-safe. Must outlive the files that it returned.
#ifndef ATTNDB_STORAGE_IO_FILE_POOL_H_
#define ATTNDB_STORAGE_IO_FILE_POOL_H_

#include <cstddef>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "common/mutex.h"
#include "storage/io/file_system.h"

namespace attndb::storage {

class FilePool final : public FileSystem {
 public:
  // A quarter of the files that the system lets a process have open now: the rest is the caller's.
  static size_t DefaultLimit();

  // `base` must outlive it. Keeps at most `max_open` files open, and each while it is being read.
  FilePool(FileSystem* base, size_t max_open) : base_(base), max_open_(max_open) {}

  // Opens the file, to see that it is there.
  Result<std::unique_ptr<RandomAccessFile>> OpenForRead(const std::string& path) override;

  Result<std::unique_ptr<WritableFile>> CreateNew(const std::string& path) override {
    return base_->CreateNew(path);
  }
  Status Rename(const std::string& from, const std::string& to) override {
    return base_->Rename(from, to);
  }
  Status Remove(const std::string& path) override { return base_->Remove(path); }
  Result<std::vector<std::string>> List(const std::string& dir) override {
    return base_->List(dir);
  }
  Status CreateDir(const std::string& path) override { return base_->CreateDir(path); }
  Status SyncDir(const std::string& dir) override { return base_->SyncDir(dir); }
  Result<uint64_t> FileSize(const std::string& path) override { return base_->FileSize(path); }
  Result<uint64_t> FreeBytes(const std::string& dir) override { return base_->FreeBytes(dir); }
  Result<std::unique_ptr<FileLock>> Lock(const std::string& path) override {
    return base_->Lock(path);
  }

  size_t num_open() const ATTNDB_EXCLUDES(mutex_);

 private:
  class PooledFile;
  using FilePtr = std::shared_ptr<const RandomAccessFile>;
  // Files that are kept open, the one read last in front.
  struct Kept {
    const PooledFile* owner;
    FilePtr file;
  };

  // The open file; opened if it is not.
  Result<FilePtr> Get(const PooledFile& file) ATTNDB_EXCLUDES(mutex_);
  void Keep(const PooledFile& file, FilePtr open) ATTNDB_EXCLUDES(mutex_);
  void Forget(const PooledFile& file) ATTNDB_EXCLUDES(mutex_);

  FileSystem* const base_;
  const size_t max_open_;

  // A leaf: nothing is opened, read or closed under it.
  mutable Mutex mutex_;
  std::list<Kept> kept_ ATTNDB_GUARDED_BY(mutex_);
};

}  // namespace attndb::storage

#endif  // ATTNDB_STORAGE_IO_FILE_POOL_H_
