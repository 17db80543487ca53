#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "common/check.h"
#include "common/process_state.h"
#include "storage/io/file_system.h"
#include "storage/io/lock_holder.h"

namespace attndb::storage {
namespace {

// Linux moves at most 0x7ffff000 bytes a call; a smaller unit keeps calls interruptible.
constexpr size_t kMaxCallBytes = size_t{1} << 30;

StatusCode CodeOf(int error) {
  switch (error) {
    case ENAMETOOLONG:
      return StatusCode::kInvalidArgument;
    case ENOENT:
      return StatusCode::kNotFound;
    case EEXIST:
      return StatusCode::kAlreadyExists;
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return StatusCode::kResourceExhausted;
    case EROFS:
    case EACCES:
    case EPERM:
      return StatusCode::kReadOnly;
    case EWOULDBLOCK:
      return StatusCode::kBusy;
    default:
      return StatusCode::kIoError;
  }
}

Status ErrnoStatus(std::string_view call, const std::string& path, int error) {
  std::string message = path;
  message += ": ";
  message += call;
  message += ": ";
  message += std::generic_category().message(error);
  return {CodeOf(error), std::move(message)};
}

// Repeats a system call that a signal interrupted.
template <typename Call>
auto Uninterrupted(const Call& call) {
  auto result = call();
  while (result == -1 && errno == EINTR) result = call();
  return result;
}

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) (void)::close(fd_);
  }
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&&) = delete;

  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

// Not being allowed to read has nothing to do with a read-only store.
Status ReadErrnoStatus(std::string_view call, const std::string& path, int error) {
  Status status = ErrnoStatus(call, path, error);
  if (status.code() != StatusCode::kReadOnly) return status;
  return Status::IoError(status.message());
}

Result<FileDescriptor> OpenFile(const std::string& path, int flags) {
  constexpr mode_t kOwnerOnly = 0600;  // KV is the user's text.
  const int fd = Uninterrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC, kOwnerOnly); });
  if (fd > STDERR_FILENO) return FileDescriptor(fd);
  if (fd != -1) {
    // The process may have been started with stdin, stdout or stderr closed. A low descriptor would
    // send its messages to the store's file.
    const FileDescriptor low(fd);
    const int high = ::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (high == -1) return ErrnoStatus("fcntl", path, errno);
    return FileDescriptor(high);
  }
  const bool reads = (flags & O_ACCMODE) == O_RDONLY;
  return reads ? ReadErrnoStatus("open", path, errno) : ErrnoStatus("open", path, errno);
}

Status WriteFully(int fd, const std::string& path, uint64_t offset,
                  std::span<const std::byte> data) {
  while (!data.empty()) {
    const size_t num_bytes = std::min(data.size(), kMaxCallBytes);
    const ssize_t written = Uninterrupted(
        [&] { return ::pwrite(fd, data.data(), num_bytes, static_cast<off_t>(offset)); });
    if (written < 0) return ErrnoStatus("write", path, errno);
    // POSIX does not define the meaning of zero; continuing could loop for ever.
    if (written == 0) return ErrnoStatus("write", path, ENOSPC);
    offset += static_cast<uint64_t>(written);
    data = data.subspan(static_cast<size_t>(written));
  }
  return Status::Ok();
}

class PosixRandomAccessFile final : public RandomAccessFile {
 public:
  PosixRandomAccessFile(std::string path, FileDescriptor fd)
      : path_(std::move(path)), fd_(std::move(fd)) {}

  Status ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    while (!out.empty()) {
      const size_t num_bytes = std::min(out.size(), kMaxCallBytes);
      const ssize_t num_read = Uninterrupted(
          [&] { return ::pread(fd_.get(), out.data(), num_bytes, static_cast<off_t>(offset)); });
      if (num_read < 0) return ReadErrnoStatus("read", path_, errno);
      if (num_read == 0) {
        return Status::Corruption(path_ + ": expected " + std::to_string(out.size()) +
                                  " more bytes at offset " + std::to_string(offset) +
                                  ", found the end of the file");
      }
      offset += static_cast<uint64_t>(num_read);
      out = out.subspan(static_cast<size_t>(num_read));
    }
    return Status::Ok();
  }

  void DropCache() const override { (void)::posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_DONTNEED); }

  Result<uint64_t> Size() const override {
    struct stat info;
    if (::fstat(fd_.get(), &info) != 0) return ReadErrnoStatus("stat", path_, errno);
    return static_cast<uint64_t>(info.st_size);
  }

 private:
  const std::string path_;
  const FileDescriptor fd_;
};

class PosixWritableFile final : public WritableFile {
 public:
  PosixWritableFile(std::string path, FileDescriptor fd)
      : path_(std::move(path)), fd_(std::move(fd)) {}

  Status Append(std::span<const std::byte> data) override {
    if (!status_.ok()) return status_;
    status_ = WriteFully(fd_.get(), path_, size_, data);
    size_ += data.size();
    return status_;
  }

  Status WriteAt(uint64_t offset, std::span<const std::byte> data) override {
    if (!status_.ok()) return status_;
    ATTNDB_CHECK(data.size() <= size_ && offset <= size_ - data.size());
    return status_ = WriteFully(fd_.get(), path_, offset, data);
  }

  Status Sync() override {
    if (!status_.ok()) return status_;
    if (Uninterrupted([&] { return ::fdatasync(fd_.get()); }) != 0) {
      status_ = ErrnoStatus("fdatasync", path_, errno);
    }
    return status_;
  }

  Status Close() override {
    if (!status_.ok()) return status_;
    // Not repeated on EINTR: Linux has closed the descriptor by then.
    if (::close(fd_.Release()) != 0 && errno != EINTR) {
      return status_ = ErrnoStatus("close", path_, errno);
    }
    status_ = Status::FailedPrecondition(path_ + ": is closed");
    return Status::Ok();
  }

 private:
  const std::string path_;
  FileDescriptor fd_;
  uint64_t size_ = 0;
  Status status_;  // The first error: poisons the file.
};

// Descriptors of the locks that the process holds. A forked child holds them, too, and would keep a
// file locked that its owner has closed. So the child releases all of them when it begins.
struct HeldLocks {
  std::set<FileDescriptor*> descriptors;
  void BeginFork() {
    for (FileDescriptor* const fd : descriptors) (void)::close(fd->Release());
    descriptors.clear();
  }
};

class PosixFileLock final : public FileLock {
 public:
  explicit PosixFileLock(FileDescriptor fd) : fd_(std::move(fd)) {
    ProcessState<HeldLocks>::Use([this](HeldLocks* held) { held->descriptors.insert(&fd_); });
  }
  ~PosixFileLock() override {
    ProcessState<HeldLocks>::Use([this](HeldLocks* held) {
      held->descriptors.erase(&fd_);
      const FileDescriptor closed(fd_.Release());  // Unlocks: here, so that no fork has it.
    });
  }

 private:
  FileDescriptor fd_;
};

class PosixFileSystemImpl final : public FileSystem {
 public:
  Result<std::unique_ptr<RandomAccessFile>> OpenForRead(const std::string& path) override {
    ATTNDB_ASSIGN_OR_RETURN(FileDescriptor fd, OpenFile(path, O_RDONLY));
    return std::unique_ptr<RandomAccessFile>(
        std::make_unique<PosixRandomAccessFile>(path, std::move(fd)));
  }

  Result<std::unique_ptr<WritableFile>> CreateNew(const std::string& path) override {
    ATTNDB_ASSIGN_OR_RETURN(FileDescriptor fd, OpenFile(path, O_WRONLY | O_CREAT | O_EXCL));
    return std::unique_ptr<WritableFile>(std::make_unique<PosixWritableFile>(path, std::move(fd)));
  }

  Status Rename(const std::string& from, const std::string& to) override {
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) {
      return Status::Ok();
    }
    if (errno != EINVAL && errno != ENOSYS) return ErrnoStatus("rename", to, errno);
    // This file system can't refuse to replace (NFS, say). The store's lock keeps other writers
    // out, so looking first is enough.
    if (::access(to.c_str(), F_OK) == 0) return ErrnoStatus("rename", to, EEXIST);
    if (::rename(from.c_str(), to.c_str()) != 0) return ErrnoStatus("rename", to, errno);
    return Status::Ok();
  }

  Status Remove(const std::string& path) override {
    if (::unlink(path.c_str()) != 0) return ErrnoStatus("unlink", path, errno);
    return Status::Ok();
  }

  Result<std::vector<std::string>> List(const std::string& dir) override {
    DIR* const stream = ::opendir(dir.c_str());
    if (stream == nullptr) return ReadErrnoStatus("opendir", dir, errno);
    std::vector<std::string> names;
    errno = 0;  // The only way to tell the end from an error.
    while (const dirent* entry = ::readdir(stream)) {
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
    }
    const int error = errno;
    (void)::closedir(stream);
    if (error != 0) return ErrnoStatus("readdir", dir, error);
    std::sort(names.begin(), names.end());
    return names;
  }

  Status CreateDir(const std::string& path) override {
    constexpr mode_t kOwnerOnly = 0700;
    if (::mkdir(path.c_str(), kOwnerOnly) == 0) return Status::Ok();
    const int error = errno;
    struct stat info;
    if (error == EEXIST && ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
      return Status::Ok();
    }
    return ErrnoStatus("mkdir", path, error);
  }

  Status SyncDir(const std::string& dir) override {
    ATTNDB_ASSIGN_OR_RETURN(const FileDescriptor fd, OpenFile(dir, O_RDONLY | O_DIRECTORY));
    if (Uninterrupted([&] { return ::fsync(fd.get()); }) != 0) {
      return ErrnoStatus("fsync", dir, errno);
    }
    return Status::Ok();
  }

  Result<uint64_t> FileSize(const std::string& path) override {
    struct stat info;
    if (::stat(path.c_str(), &info) != 0) return ReadErrnoStatus("stat", path, errno);
    return static_cast<uint64_t>(info.st_size);
  }

  Result<uint64_t> FreeBytes(const std::string& dir) override {
    struct statvfs info;
    if (::statvfs(dir.c_str(), &info) != 0) return ReadErrnoStatus("statvfs", dir, errno);
    return uint64_t{info.f_bavail} * uint64_t{info.f_frsize};
  }

  Result<std::unique_ptr<FileLock>> Lock(const std::string& path) override {
    ATTNDB_ASSIGN_OR_RETURN(FileDescriptor fd, OpenFile(path, O_RDWR | O_CREAT));
    if (Uninterrupted([&] { return ::flock(fd.get(), LOCK_EX | LOCK_NB); }) != 0) {
      if (errno == EWOULDBLOCK) {
        return Status::Busy(path + ": is locked by " + LockHolderText(fd.get()));
      }
      return ErrnoStatus("flock", path, errno);
    }
    (void)::futimens(fd.get(), nullptr);  // Records the time, for processes that find it locked.
    return std::unique_ptr<FileLock>(std::make_unique<PosixFileLock>(std::move(fd)));
  }
};

}  // namespace

FileSystem* PosixFileSystem() {
  static PosixFileSystemImpl file_system;
  return &file_system;
}

std::string JoinPath(const std::string& dir, const std::string& name) { return dir + '/' + name; }

}  // namespace attndb::storage
