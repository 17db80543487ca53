// A file system that fails on demand: the n-th operation, once or from then on.
//
// Every call of FileSystem and of its files counts as one operation, so that a test can run a piece
// of work with n = 1, 2, ... until it ends without a fault having been met.
//
// Errors:  those of the base, and the fault's.
// Threads: thread-safe.
#ifndef ATTNDB_TESTING_FAULT_FILE_SYSTEM_H_
#define ATTNDB_TESTING_FAULT_FILE_SYSTEM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/mutex.h"
#include "storage/io/file_system.h"
#include "testing/event.h"

namespace attndb::test {

enum class FaultKind : uint8_t {
  kIoError,     // EIO; nothing is done.
  kNoSpace,     // ENOSPC; nothing is done.
  kTornWrite,   // A write stops in the middle, then ENOSPC; other calls: as kIoError.
  kErrorAfter,  // EIO, but the work was done: an fsync or rename whose answer got lost.
  kNoMemory,    // std::bad_alloc is thrown; nothing is done.
};

class FaultFileSystem final : public storage::FileSystem {
 public:
  struct Plan {
    uint64_t fail_at = 0;  // The operation that fails, from 1; 0 = none.
    bool sticky = false;   // All later operations fail too: a broken disk.
    FaultKind kind = FaultKind::kIoError;
    bool removes_fail = true;  // Whether Remove may fail: clean-up then leaves files.
    // Whether a written file goes on after a fault, against what WritableFile promises: then the
    // error is seen by who looks at the status of that very call, and by no one later.
    bool forgets = false;
    // Not null: an operation that would fail waits for `waits_for` instead, and is done then. It
    // sets `waiting` before it waits.
    Event* waits_for = nullptr;
    Event* waiting = nullptr;
  };

  // `base` must outlive this.
  explicit FaultFileSystem(storage::FileSystem* base) : base_(base) {}

  // Starts counting from 0 again.
  void SetPlan(const Plan& plan);
  uint64_t num_operations() const;
  uint64_t num_faults() const;
  // Calls of DropCache, which is no operation: it can't fail.
  uint64_t num_cache_drops() const;

  Result<std::unique_ptr<storage::RandomAccessFile>> OpenForRead(const std::string& path) override;
  Result<std::unique_ptr<storage::WritableFile>> CreateNew(const std::string& path) override;
  Status Rename(const std::string& from, const std::string& to) override;
  Status Remove(const std::string& path) override;
  Result<std::vector<std::string>> List(const std::string& dir) override;
  Status CreateDir(const std::string& path) override;
  Status SyncDir(const std::string& dir) override;
  Result<uint64_t> FileSize(const std::string& path) override;
  Result<uint64_t> FreeBytes(const std::string& dir) override;
  Result<std::unique_ptr<storage::FileLock>> Lock(const std::string& path) override;

 private:
  class Reader;
  class Writer;

  struct Fault {
    bool now = false;
    FaultKind kind = FaultKind::kIoError;
    Status status;
    bool Before() const { return now && kind != FaultKind::kErrorAfter; }
  };
  // Counts one operation and says whether it fails.
  Fault Next(const std::string& what) ATTNDB_EXCLUDES(mutex_);
  bool Forgets() const ATTNDB_EXCLUDES(mutex_);
  void CountCacheDrop() ATTNDB_EXCLUDES(mutex_);

  // Runs `call`, or fails in its place or after it.
  template <typename Call>
  auto Do(const std::string& what, const Call& call) -> decltype(call());

  storage::FileSystem* const base_;
  mutable Mutex mutex_;
  Plan plan_ ATTNDB_GUARDED_BY(mutex_);
  uint64_t num_operations_ ATTNDB_GUARDED_BY(mutex_) = 0;
  uint64_t num_faults_ ATTNDB_GUARDED_BY(mutex_) = 0;
  uint64_t num_cache_drops_ ATTNDB_GUARDED_BY(mutex_) = 0;
};

}  // namespace attndb::test

#endif  // ATTNDB_TESTING_FAULT_FILE_SYSTEM_H_
