#include "testing/fault_file_system.h"

#include <new>
#include <utility>

namespace attndb::test {

using storage::FileLock;
using storage::RandomAccessFile;
using storage::WritableFile;

template <typename Call>
auto FaultFileSystem::Do(const std::string& what, const Call& call) -> decltype(call()) {
  const Fault fault = Next(what);
  if (fault.now && fault.kind == FaultKind::kNoMemory) throw std::bad_alloc();
  if (fault.Before()) return fault.status;
  auto result = call();
  if (fault.now) return fault.status;
  return result;
}

class FaultFileSystem::Reader final : public RandomAccessFile {
 public:
  Reader(FaultFileSystem* faults, std::unique_ptr<RandomAccessFile> base)
      : faults_(faults), base_(std::move(base)) {}

  Status ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    return faults_->Do("read", [&] { return base_->ReadAt(offset, out); });
  }
  Result<uint64_t> Size() const override {
    return faults_->Do("stat", [&] { return base_->Size(); });
  }
  void DropCache() const override {
    faults_->CountCacheDrop();
    base_->DropCache();
  }

 private:
  FaultFileSystem* const faults_;
  const std::unique_ptr<RandomAccessFile> base_;
};

class FaultFileSystem::Writer final : public WritableFile {
 public:
  Writer(FaultFileSystem* faults, std::unique_ptr<WritableFile> base)
      : faults_(faults), base_(std::move(base)) {}

  Status Append(std::span<const std::byte> data) override {
    return Poison([&] {
      const Fault fault = faults_->Next("append");
      if (fault.Before() && fault.kind == FaultKind::kTornWrite) {
        ATTNDB_RETURN_IF_ERROR(base_->Append(data.first(data.size() / 2)));
      }
      if (fault.Before()) return fault.status;
      ATTNDB_RETURN_IF_ERROR(base_->Append(data));
      return fault.status;
    });
  }
  Status WriteAt(uint64_t offset, std::span<const std::byte> data) override {
    return Poison(
        [&] { return faults_->Do("write", [&] { return base_->WriteAt(offset, data); }); });
  }
  Status Sync() override {
    return Poison([&] { return faults_->Do("fsync", [&] { return base_->Sync(); }); });
  }
  Status Close() override {
    return Poison([&] { return faults_->Do("close", [&] { return base_->Close(); }); });
  }

 private:
  // The promise of WritableFile: after an error, nothing but that error.
  template <typename Call>
  Status Poison(const Call& call) {
    if (status_.ok() || faults_->Forgets()) status_ = call();
    return status_;
  }

  FaultFileSystem* const faults_;
  const std::unique_ptr<WritableFile> base_;
  Status status_;
};

void FaultFileSystem::SetPlan(const Plan& plan) {
  MutexLock lock(&mutex_);
  plan_ = plan;
  num_operations_ = 0;
  num_faults_ = 0;
  num_cache_drops_ = 0;
}

uint64_t FaultFileSystem::num_operations() const {
  MutexLock lock(&mutex_);
  return num_operations_;
}

uint64_t FaultFileSystem::num_faults() const {
  MutexLock lock(&mutex_);
  return num_faults_;
}

uint64_t FaultFileSystem::num_cache_drops() const {
  MutexLock lock(&mutex_);
  return num_cache_drops_;
}

void FaultFileSystem::CountCacheDrop() {
  MutexLock lock(&mutex_);
  ++num_cache_drops_;
}

bool FaultFileSystem::Forgets() const {
  MutexLock lock(&mutex_);
  return plan_.forgets;
}

FaultFileSystem::Fault FaultFileSystem::Next(const std::string& what) {
  MutexLock lock(&mutex_);
  ++num_operations_;
  const bool now = plan_.fail_at != 0 && (plan_.sticky ? num_operations_ >= plan_.fail_at
                                                       : num_operations_ == plan_.fail_at);
  if (!now) return {};
  ++num_faults_;
  if (Event* const release = plan_.waits_for) {
    plan_.waiting->Set();
    lock.Unlock();
    release->Await();
    return {};
  }
  const bool no_space = plan_.kind == FaultKind::kNoSpace || plan_.kind == FaultKind::kTornWrite;
  return {.now = true,
          .kind = plan_.kind,
          .status = {no_space ? StatusCode::kResourceExhausted : StatusCode::kIoError,
                     "injected fault: " + what + ", operation " + std::to_string(num_operations_)}};
}

Result<std::unique_ptr<RandomAccessFile>> FaultFileSystem::OpenForRead(const std::string& path) {
  return Do("open " + path, [&]() -> Result<std::unique_ptr<RandomAccessFile>> {
    ATTNDB_ASSIGN_OR_RETURN(auto file, base_->OpenForRead(path));
    return std::unique_ptr<RandomAccessFile>(std::make_unique<Reader>(this, std::move(file)));
  });
}

Result<std::unique_ptr<WritableFile>> FaultFileSystem::CreateNew(const std::string& path) {
  return Do("create " + path, [&]() -> Result<std::unique_ptr<WritableFile>> {
    ATTNDB_ASSIGN_OR_RETURN(auto file, base_->CreateNew(path));
    return std::unique_ptr<WritableFile>(std::make_unique<Writer>(this, std::move(file)));
  });
}

Status FaultFileSystem::Rename(const std::string& from, const std::string& to) {
  return Do("rename " + from, [&] { return base_->Rename(from, to); });
}

Status FaultFileSystem::Remove(const std::string& path) {
  {
    MutexLock lock(&mutex_);
    if (!plan_.removes_fail) return base_->Remove(path);
  }
  return Do("remove " + path, [&] { return base_->Remove(path); });
}

Result<std::vector<std::string>> FaultFileSystem::List(const std::string& dir) {
  return Do("list " + dir, [&] { return base_->List(dir); });
}

Status FaultFileSystem::CreateDir(const std::string& path) {
  return Do("mkdir " + path, [&] { return base_->CreateDir(path); });
}

Status FaultFileSystem::SyncDir(const std::string& dir) {
  return Do("fsync " + dir, [&] { return base_->SyncDir(dir); });
}

Result<uint64_t> FaultFileSystem::FileSize(const std::string& path) {
  return Do("stat " + path, [&] { return base_->FileSize(path); });
}

Result<uint64_t> FaultFileSystem::FreeBytes(const std::string& dir) {
  return Do("statvfs " + dir, [&] { return base_->FreeBytes(dir); });
}

Result<std::unique_ptr<FileLock>> FaultFileSystem::Lock(const std::string& path) {
  return Do("lock " + path, [&] { return base_->Lock(path); });
}

}  // namespace attndb::test
