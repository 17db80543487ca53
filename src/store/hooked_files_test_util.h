// The files of a base; a test decides how many bytes are free and which calls fail.
//
// Errors:  those of the base, and those that the test asks for.
// Threads: as the base. Hooks are set while no thread uses the files; the thread of a call runs
//          them.
#ifndef ATTNDB_STORE_HOOKED_FILES_TEST_UTIL_H_
#define ATTNDB_STORE_HOOKED_FILES_TEST_UTIL_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "storage/io/file_system.h"

namespace attndb::store {

class HookedFiles final : public storage::FileSystem {
 public:
  // `base` must outlive this.
  explicit HookedFiles(storage::FileSystem* base) : base_(base) {}

  std::function<Result<uint64_t>()> free_bytes;  // Null: those of the base.
  // Called before a call that changes a folder, with the call's name and path. An error is returned
  // instead of making the call. May be null.
  std::function<Status(std::string_view call, const std::string& path)> before;

  Result<std::unique_ptr<storage::RandomAccessFile>> OpenForRead(const std::string& path) override {
    return base_->OpenForRead(path);
  }
  Result<std::unique_ptr<storage::WritableFile>> CreateNew(const std::string& path) override {
    ATTNDB_RETURN_IF_ERROR(Before("CreateNew", path));
    return base_->CreateNew(path);
  }
  Status Rename(const std::string& from, const std::string& to) override {
    ATTNDB_RETURN_IF_ERROR(Before("Rename", from));
    return base_->Rename(from, to);
  }
  Status Remove(const std::string& path) override {
    ATTNDB_RETURN_IF_ERROR(Before("Remove", path));
    return base_->Remove(path);
  }
  Result<std::vector<std::string>> List(const std::string& dir) override {
    return base_->List(dir);
  }
  Status CreateDir(const std::string& path) override {
    ATTNDB_RETURN_IF_ERROR(Before("CreateDir", path));
    return base_->CreateDir(path);
  }
  Status SyncDir(const std::string& dir) override {
    ATTNDB_RETURN_IF_ERROR(Before("SyncDir", dir));
    return base_->SyncDir(dir);
  }
  Result<uint64_t> FileSize(const std::string& path) override { return base_->FileSize(path); }
  Result<uint64_t> FreeBytes(const std::string& dir) override {
    return free_bytes ? free_bytes() : base_->FreeBytes(dir);
  }
  Result<std::unique_ptr<storage::FileLock>> Lock(const std::string& path) override {
    return base_->Lock(path);
  }

 private:
  Status Before(std::string_view call, const std::string& path) const {
    return before ? before(call, path) : Status::Ok();
  }

  storage::FileSystem* const base_;
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_HOOKED_FILES_TEST_UTIL_H_
