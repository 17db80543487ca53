// Files as storage needs them: narrow, positional, replaceable by a faulty one in tests.
//
// Errors:  every status names the path and, for a system error, the call and errno's text.
//          kInvalidArgument (ENAMETOOLONG) · kNotFound (no such file) · kAlreadyExists · kBusy
//          (locked) · kReadOnly (EROFS; EACCES and EPERM on a write) · kResourceExhausted (ENOSPC,
//          EDQUOT, EMFILE, ENOMEM) · kCorruption (a file ends before the bytes asked for) ·
//          kIoError (anything else).
// Threads: FileSystem and RandomAccessFile are thread-safe; a WritableFile is thread-compatible.
#ifndef ATTNDB_STORAGE_IO_FILE_SYSTEM_H_
#define ATTNDB_STORAGE_IO_FILE_SYSTEM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "attndb/result.h"

namespace attndb::storage {

// An open file; stays readable after its name is removed.
class RandomAccessFile {
 public:
  virtual ~RandomAccessFile() = default;

  // Fills `out` with the bytes at `offset`: all of them or an error.
  virtual Status ReadAt(uint64_t offset, std::span<std::byte> out) const = 0;

  virtual Result<uint64_t> Size() const = 0;

  // Asks the system to drop its copy of the contents, so that later reads come from the disk.
  virtual void DropCache() const {}
};

// A new file. After a call has failed, the file is poisoned: every later call gives the same status
// and does nothing. A failed fsync in particular is never retried, since the kernel may have
// dropped the dirty pages and would report success (Rebello et al., ATC 2020).
class WritableFile {
 public:
  // Closes the file, if Close was not called; an error of that is lost.
  virtual ~WritableFile() = default;

  // Writes at the end of the appended bytes.
  virtual Status Append(std::span<const std::byte> data) = 0;

  // Overwrites appended bytes. REQUIRES: offset + data.size() <= appended bytes.
  virtual Status WriteAt(uint64_t offset, std::span<const std::byte> data) = 0;

  // Makes the contents durable. The name is durable after SyncDir on its directory.
  virtual Status Sync() = 0;

  virtual Status Close() = 0;
};

// An exclusive lock, held until destruction or the end of the process that took it; a fork of that
// has no part in it.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  virtual Result<std::unique_ptr<RandomAccessFile>> OpenForRead(const std::string& path) = 0;

  // Creates `path`, which must not exist (kAlreadyExists), readable by its owner only.
  virtual Result<std::unique_ptr<WritableFile>> CreateNew(const std::string& path) = 0;

  // Renames atomically. Never replaces: kAlreadyExists if `to` exists.
  virtual Status Rename(const std::string& from, const std::string& to) = 0;

  virtual Status Remove(const std::string& path) = 0;

  // Names in `dir` without "." and "..", sorted.
  virtual Result<std::vector<std::string>> List(const std::string& dir) = 0;

  // Ok if the directory is there already. Its parent must exist. Accessible by its owner only.
  virtual Status CreateDir(const std::string& path) = 0;

  // Makes names created, renamed and removed in `dir` durable.
  virtual Status SyncDir(const std::string& dir) = 0;

  virtual Result<uint64_t> FileSize(const std::string& path) = 0;

  // Free bytes on the disk of `dir`.
  virtual Result<uint64_t> FreeBytes(const std::string& dir) = 0;

  // Locks the file `path`, which is created if missing, without waiting. Errors: kBusy if anyone,
  // this process included, holds it. The system releases it when the process dies.
  virtual Result<std::unique_ptr<FileLock>> Lock(const std::string& path) = 0;
};

// The machine's file system.
FileSystem* PosixFileSystem();

// `dir`/`name`.
std::string JoinPath(const std::string& dir, const std::string& name);

}  // namespace attndb::storage

#endif  // ATTNDB_STORAGE_IO_FILE_SYSTEM_H_
