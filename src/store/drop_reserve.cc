#include "store/drop_reserve.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "attndb/result.h"

namespace attndb::store {

void DropReserve::Take() {
  MutexLock lock(&mutex_);
  if (taken_) return;
  const uint64_t found = FileBytes();
  taken_ = found == kBytes;
  if (taken_ || (found > 0 && FreeBytes() < kStepBytes)) return;
  (void)file_system_->Remove(path_);
  taken_ = Write(kBytes);
  if (taken_) return;
  const uint64_t most = std::max(found, released_bytes_);
  const uint64_t room = std::min({FreeBytes(), most, uint64_t{kBytes}}) / kStepBytes * kStepBytes;
  if (room > 0) (void)Write(room);
}

uint64_t DropReserve::Release() {
  MutexLock lock(&mutex_);
  taken_ = false;
  released_bytes_ = FileBytes();
  (void)file_system_->Remove(path_);
  return released_bytes_;
}

uint64_t DropReserve::FileBytes() const {
  const Result<uint64_t> size = file_system_->FileSize(path_);
  return size.ok() ? *size : 0;
}

uint64_t DropReserve::FreeBytes() const {
  const std::string folder = std::filesystem::path(path_).parent_path();
  const Result<uint64_t> free_bytes = file_system_->FreeBytes(folder);
  return free_bytes.ok() ? *free_bytes : std::numeric_limits<uint64_t>::max();
}

bool DropReserve::Write(size_t num_bytes) const {
  if (TryWrite(num_bytes).ok()) return true;
  (void)file_system_->Remove(path_);
  return false;
}

Status DropReserve::TryWrite(size_t num_bytes) const {
  // Random, since a file system that compresses would give zeros no room.
  std::vector<uint32_t> words(num_bytes / sizeof(uint32_t));
  std::mt19937 random;
  for (uint32_t& word : words) word = static_cast<uint32_t>(random());
  ATTNDB_ASSIGN_OR_RETURN(const std::unique_ptr<storage::WritableFile> file,
                          file_system_->CreateNew(path_));
  ATTNDB_RETURN_IF_ERROR(file->Append(std::as_bytes(std::span(words))));
  return file->Close();
}

}  // namespace attndb::store
