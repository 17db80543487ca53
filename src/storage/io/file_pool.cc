#include "storage/io/file_pool.h"

#include <sys/resource.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace attndb::storage {

class FilePool::PooledFile final : public RandomAccessFile {
 public:
  PooledFile(FilePool* pool, std::string path) : pool_(pool), path_(std::move(path)) {}
  ~PooledFile() override { pool_->Forget(*this); }

  Status ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    ATTNDB_ASSIGN_OR_RETURN(const FilePtr file, pool_->Get(*this));
    return file->ReadAt(offset, out);
  }
  Result<uint64_t> Size() const override {
    ATTNDB_ASSIGN_OR_RETURN(const FilePtr file, pool_->Get(*this));
    return file->Size();
  }
  void DropCache() const override {
    const Result<FilePtr> file = pool_->Get(*this);
    if (file.ok()) (*file)->DropCache();
  }

 private:
  friend class FilePool;

  FilePool* const pool_;
  const std::string path_;
  // Its place in the pool's list, which is kept open. Guarded by the pool's mutex.
  mutable std::optional<std::list<Kept>::iterator> place_;
};

size_t FilePool::DefaultLimit() {
  constexpr size_t kMost = 1024;
  constexpr size_t kLeast = 16;
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return kLeast;
  return std::clamp<size_t>(limit.rlim_cur / 4, kLeast, kMost);
}

Result<std::unique_ptr<RandomAccessFile>> FilePool::OpenForRead(const std::string& path) {
  auto file = std::make_unique<PooledFile>(this, path);
  ATTNDB_RETURN_IF_ERROR(Get(*file).status());
  return std::unique_ptr<RandomAccessFile>(std::move(file));
}

Result<FilePool::FilePtr> FilePool::Get(const PooledFile& file) {
  {
    MutexLock lock(&mutex_);
    if (file.place_) {
      kept_.splice(kept_.begin(), kept_, *file.place_);
      return kept_.front().file;
    }
  }
  ATTNDB_ASSIGN_OR_RETURN(FilePtr open, base_->OpenForRead(file.path_));
  Keep(file, open);
  return open;
}

void FilePool::Keep(const PooledFile& file, FilePtr open) {
  std::list<Kept> dropped;  // Closed after the lock is gone.
  MutexLock lock(&mutex_);
  if (file.place_) return;  // Another thread was first.
  kept_.push_front({&file, std::move(open)});
  file.place_ = kept_.begin();
  while (kept_.size() > max_open_) {
    kept_.back().owner->place_.reset();
    dropped.splice(dropped.begin(), kept_, std::prev(kept_.end()));
  }
}

void FilePool::Forget(const PooledFile& file) {
  std::list<Kept> dropped;
  MutexLock lock(&mutex_);
  if (file.place_) dropped.splice(dropped.begin(), kept_, *file.place_);
}

size_t FilePool::num_open() const {
  MutexLock lock(&mutex_);
  return kept_.size();
}

}  // namespace attndb::storage
