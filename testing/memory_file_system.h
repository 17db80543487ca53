// A file system in memory that knows what would survive a power cut.
//
// Each file keeps two images: what was written and what is durable; each directory two lists of
// names. Sync and SyncDir copy one to the other. PowerCut goes back to what is durable, and lets
// some of the rest survive as well, by the seed: whole, torn, as zeros, or not at all.
//
// Errors:  as FileSystem.
// Threads: thread-safe.
#ifndef ATTNDB_TESTING_MEMORY_FILE_SYSTEM_H_
#define ATTNDB_TESTING_MEMORY_FILE_SYSTEM_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/mutex.h"
#include "common/random.h"
#include "storage/io/file_system.h"

namespace attndb::test {

class MemoryFileSystem final : public storage::FileSystem {
 public:
  MemoryFileSystem();
  ~MemoryFileSystem() override;

  Result<std::unique_ptr<storage::RandomAccessFile>> OpenForRead(const std::string& path) override;
  Result<std::unique_ptr<storage::WritableFile>> CreateNew(const std::string& path) override;
  Status Rename(const std::string& from, const std::string& to) override;
  Status Remove(const std::string& path) override;
  Result<std::vector<std::string>> List(const std::string& dir) override;
  Status CreateDir(const std::string& path) override;
  Status SyncDir(const std::string& dir) override;
  Result<uint64_t> FileSize(const std::string& path) override;
  Result<uint64_t> FreeBytes(const std::string&) override { return uint64_t{1} << 40; }
  Result<std::unique_ptr<storage::FileLock>> Lock(const std::string& path) override;

  // The contents of a file, to read or to damage. REQUIRES: the file exists.
  std::vector<std::byte> Contents(const std::string& path) const;
  // Replaces or creates a file; open readers see the new contents.
  void SetContents(const std::string& path, std::vector<std::byte> contents);

  // Loses what was not synced, or some of it. Open files must not be used afterwards.
  void PowerCut(uint64_t seed);

 private:
  class Reader;
  class Writer;
  class HeldLock;
  struct File;
  using Names = std::map<std::string, std::shared_ptr<File>>;

  Result<std::shared_ptr<File>> Find(const std::string& path) const ATTNDB_REQUIRES(mutex_);
  Status CheckParent(const std::string& path) const ATTNDB_REQUIRES(mutex_);

  mutable Mutex mutex_;
  Names names_ ATTNDB_GUARDED_BY(mutex_);
  Names durable_names_ ATTNDB_GUARDED_BY(mutex_);
  std::set<std::string> dirs_ ATTNDB_GUARDED_BY(mutex_);  // Durable at once.
  std::set<std::string> locks_ ATTNDB_GUARDED_BY(mutex_);
};

}  // namespace attndb::test

#endif  // ATTNDB_TESTING_MEMORY_FILE_SYSTEM_H_
