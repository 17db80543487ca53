#include "store/drop_reserve.h"

#include <cstddef>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "attndb/result.h"

namespace attndb::store {

void DropReserve::Take() {
  MutexLock lock(&mutex_);
  if (taken_) return;
  taken_ = Stands() || Write().ok();
  if (!taken_) (void)file_system_->Remove(path_);
}

void DropReserve::Release() {
  MutexLock lock(&mutex_);
  taken_ = false;
  (void)file_system_->Remove(path_);
}

bool DropReserve::Stands() const {
  const Result<uint64_t> bytes = file_system_->FileSize(path_);
  if (!bytes.ok()) return false;
  if (*bytes == kBytes) return true;
  (void)file_system_->Remove(path_);
  return false;
}

Status DropReserve::Write() const {
  // Random, since a file system that compresses would give zeros no room.
  std::vector<uint32_t> words(kBytes / sizeof(uint32_t));
  std::mt19937 random;
  for (uint32_t& word : words) word = static_cast<uint32_t>(random());
  ATTNDB_ASSIGN_OR_RETURN(const std::unique_ptr<storage::WritableFile> file,
                          file_system_->CreateNew(path_));
  ATTNDB_RETURN_IF_ERROR(file->Append(std::as_bytes(std::span(words))));
  return file->Close();
}

}  // namespace attndb::store
