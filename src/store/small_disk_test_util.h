// A disk of as many free bytes as a test says.
//
// Errors:  those of the base, and what the test gives in place of the free bytes.
// Threads: as the base; a test sets the free bytes while nobody asks for them.
#ifndef ATTNDB_STORE_SMALL_DISK_TEST_UTIL_H_
#define ATTNDB_STORE_SMALL_DISK_TEST_UTIL_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "storage/io/file_system.h"

namespace attndb::store {

class SmallDisk final : public storage::FileSystem {
 public:
  // `base` must outlive this.
  explicit SmallDisk(storage::FileSystem* base) : base_(base) {}

  std::function<Result<uint64_t>()> free_bytes;  // Null: those of the base.

  Result<std::unique_ptr<storage::RandomAccessFile>> OpenForRead(const std::string& path) override {
    return base_->OpenForRead(path);
  }
  Result<std::unique_ptr<storage::WritableFile>> CreateNew(const std::string& path) override {
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
  Result<uint64_t> FreeBytes(const std::string& dir) override {
    return free_bytes ? free_bytes() : base_->FreeBytes(dir);
  }
  Result<std::unique_ptr<storage::FileLock>> Lock(const std::string& path) override {
    return base_->Lock(path);
  }

 private:
  storage::FileSystem* const base_;
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_SMALL_DISK_TEST_UTIL_H_
