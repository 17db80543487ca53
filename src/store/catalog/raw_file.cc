#include "store/catalog/raw_file.h"

#include <sqlite3.h>

#include <utility>

namespace attndb::store {

void RawFile::Closer::operator()(sqlite3_file* file) const {
  if (file->pMethods != nullptr) file->pMethods->xClose(file);
}

void RawFile::NameFreer::operator()(const char* name) const {
  sqlite3_free_filename(const_cast<char*>(name));
}

Result<RawFile> RawFile::Open(const std::string& path) {
  sqlite3_vfs* const vfs = sqlite3_vfs_find("unix");
  if (vfs == nullptr) return Status::Unsupported("SQLite has no VFS \"unix\"");
  std::string full_path(static_cast<size_t>(vfs->mxPathname) + 1, '\0');
  int rc =
      vfs->xFullPathname(vfs, path.c_str(), static_cast<int>(full_path.size()), full_path.data());
  // SQLITE_OK_SYMLINK is no error: the path has a symbolic link in it, which full_path follows.
  if (rc != SQLITE_OK && rc != SQLITE_OK_SYMLINK) {
    return Status::IoError(path + ": " + sqlite3_errstr(rc));
  }
  RawFile opened(path);
  // SQLite wants the names of a database as it makes them itself.
  opened.name_.reset(sqlite3_create_filename(full_path.c_str(), "", "", 0, nullptr));
  if (opened.name_ == nullptr) return Status::ResourceExhausted(path + ": no memory to open it");
  opened.memory_ = std::make_unique<std::max_align_t[]>(
      static_cast<size_t>(vfs->szOsFile) / sizeof(std::max_align_t) + 1);
  opened.file_.reset(reinterpret_cast<sqlite3_file*>(opened.memory_.get()));
  rc = vfs->xOpen(vfs, opened.name_.get(), opened.file_.get(),
                  SQLITE_OPEN_READONLY | SQLITE_OPEN_MAIN_DB, nullptr);
  if (rc != SQLITE_OK) return Status::IoError(path + ": " + sqlite3_errstr(rc));
  return opened;
}

Status RawFile::Read(uint64_t offset, std::span<std::byte> bytes) const {
  const int rc = file_->pMethods->xRead(file_.get(), bytes.data(), static_cast<int>(bytes.size()),
                                        static_cast<sqlite3_int64>(offset));
  if (rc == SQLITE_OK) return {};
  if (rc == SQLITE_IOERR_SHORT_READ) return Status::Corruption(path_ + ": it is cut short");
  return Status::IoError(path_ + ": " + sqlite3_errstr(rc));
}

Result<uint64_t> RawFile::NumBytes() const {
  sqlite3_int64 num_bytes = 0;
  const int rc = file_->pMethods->xFileSize(file_.get(), &num_bytes);
  if (rc != SQLITE_OK) return Status::IoError(path_ + ": " + sqlite3_errstr(rc));
  return static_cast<uint64_t>(num_bytes);
}

}  // namespace attndb::store
