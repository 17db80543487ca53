#include "testing/memory_file_system.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/check.h"

namespace attndb::test {
namespace {

using storage::FileLock;
using storage::RandomAccessFile;
using storage::WritableFile;

// Disks lose and tear data in units of this.
constexpr size_t kSectorBytes = 512;

std::string ParentOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash);
}

// What is left of `written` when only `durable` was synced: each sector is one or the other.
std::vector<std::byte> Tear(const std::vector<std::byte>& written,
                            const std::vector<std::byte>& durable, Random* random) {
  std::vector<std::byte> left = durable;
  left.resize(durable.size() + random->Uniform(written.size() + 1));
  left.resize(std::min(left.size(), std::max(written.size(), durable.size())), std::byte{0});
  for (size_t begin = 0; begin < left.size(); begin += kSectorBytes) {
    if (random->OneIn(2)) continue;  // Stays durable, or zeros where nothing was durable.
    const size_t end = std::min({begin + kSectorBytes, left.size(), written.size()});
    for (size_t i = begin; i < end; ++i) left[i] = written[i];
  }
  return left;
}

}  // namespace

struct MemoryFileSystem::File {
  mutable Mutex mutex;
  std::vector<std::byte> written ATTNDB_GUARDED_BY(mutex);
  std::vector<std::byte> durable ATTNDB_GUARDED_BY(mutex);
};

class MemoryFileSystem::Reader final : public RandomAccessFile {
 public:
  Reader(std::string path, std::shared_ptr<File> file)
      : path_(std::move(path)), file_(std::move(file)) {}

  Status ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    MutexLock lock(&file_->mutex);
    const size_t size = file_->written.size();
    if (offset > size || out.size() > size - offset) {
      return Status::Corruption(path_ + ": expected " + std::to_string(out.size()) +
                                " bytes at offset " + std::to_string(offset) +
                                ", found the end of the file");
    }
    std::copy_n(file_->written.begin() + static_cast<std::ptrdiff_t>(offset), out.size(),
                out.begin());
    return Status::Ok();
  }

  Result<uint64_t> Size() const override {
    MutexLock lock(&file_->mutex);
    return uint64_t{file_->written.size()};
  }

 private:
  const std::string path_;
  const std::shared_ptr<File> file_;
};

class MemoryFileSystem::Writer final : public WritableFile {
 public:
  explicit Writer(std::shared_ptr<File> file) : file_(std::move(file)) {}

  Status Append(std::span<const std::byte> data) override {
    MutexLock lock(&file_->mutex);
    file_->written.insert(file_->written.end(), data.begin(), data.end());
    return Status::Ok();
  }

  Status WriteAt(uint64_t offset, std::span<const std::byte> data) override {
    MutexLock lock(&file_->mutex);
    ATTNDB_CHECK(offset + data.size() <= file_->written.size());
    std::copy(data.begin(), data.end(),
              file_->written.begin() + static_cast<std::ptrdiff_t>(offset));
    return Status::Ok();
  }

  Status Sync() override {
    MutexLock lock(&file_->mutex);
    file_->durable = file_->written;
    return Status::Ok();
  }

  Status Close() override { return Status::Ok(); }

 private:
  const std::shared_ptr<File> file_;
};

class MemoryFileSystem::HeldLock final : public FileLock {
 public:
  HeldLock(MemoryFileSystem* file_system, std::string path)
      : file_system_(file_system), path_(std::move(path)) {}
  ~HeldLock() override {
    MutexLock lock(&file_system_->mutex_);
    file_system_->locks_.erase(path_);
  }

 private:
  MemoryFileSystem* const file_system_;
  const std::string path_;
};

MemoryFileSystem::MemoryFileSystem() = default;
MemoryFileSystem::~MemoryFileSystem() = default;

Result<std::shared_ptr<MemoryFileSystem::File>> MemoryFileSystem::Find(
    const std::string& path) const {
  const auto found = names_.find(path);
  if (found == names_.end()) return Status::NotFound(path + ": no such file");
  return found->second;
}

Status MemoryFileSystem::CheckParent(const std::string& path) const {
  const std::string parent = ParentOf(path);
  if (parent.empty() || dirs_.contains(parent)) return Status::Ok();
  return Status::NotFound(parent + ": no such directory");
}

Result<std::unique_ptr<RandomAccessFile>> MemoryFileSystem::OpenForRead(const std::string& path) {
  MutexLock lock(&mutex_);
  ATTNDB_ASSIGN_OR_RETURN(std::shared_ptr<File> file, Find(path));
  return std::unique_ptr<RandomAccessFile>(std::make_unique<Reader>(path, std::move(file)));
}

Result<std::unique_ptr<WritableFile>> MemoryFileSystem::CreateNew(const std::string& path) {
  MutexLock lock(&mutex_);
  ATTNDB_RETURN_IF_ERROR(CheckParent(path));
  const auto [place, inserted] = names_.try_emplace(path, std::make_shared<File>());
  if (!inserted) return Status::AlreadyExists(path + ": exists");
  return std::unique_ptr<WritableFile>(std::make_unique<Writer>(place->second));
}

Status MemoryFileSystem::Rename(const std::string& from, const std::string& to) {
  MutexLock lock(&mutex_);
  ATTNDB_ASSIGN_OR_RETURN(std::shared_ptr<File> file, Find(from));
  if (names_.contains(to)) return Status::AlreadyExists(to + ": exists");
  names_.erase(from);
  names_.emplace(to, std::move(file));
  return Status::Ok();
}

Status MemoryFileSystem::Remove(const std::string& path) {
  MutexLock lock(&mutex_);
  if (names_.erase(path) == 0) return Status::NotFound(path + ": no such file");
  return Status::Ok();
}

Result<std::vector<std::string>> MemoryFileSystem::List(const std::string& dir) {
  MutexLock lock(&mutex_);
  if (!dirs_.contains(dir)) return Status::NotFound(dir + ": no such directory");
  std::vector<std::string> names;
  for (const auto& [path, file] : names_) {
    if (ParentOf(path) == dir) names.push_back(path.substr(dir.size() + 1));
  }
  return names;
}

Status MemoryFileSystem::CreateDir(const std::string& path) {
  MutexLock lock(&mutex_);
  ATTNDB_RETURN_IF_ERROR(CheckParent(path));
  dirs_.insert(path);
  return Status::Ok();
}

Status MemoryFileSystem::SyncDir(const std::string& dir) {
  MutexLock lock(&mutex_);
  std::erase_if(durable_names_, [&](const auto& entry) { return ParentOf(entry.first) == dir; });
  for (const auto& entry : names_) {
    if (ParentOf(entry.first) == dir) durable_names_.insert(entry);
  }
  return Status::Ok();
}

Result<uint64_t> MemoryFileSystem::FileSize(const std::string& path) {
  ATTNDB_ASSIGN_OR_RETURN(const auto file, OpenForRead(path));
  return file->Size();
}

Result<std::unique_ptr<FileLock>> MemoryFileSystem::Lock(const std::string& path) {
  MutexLock lock(&mutex_);
  if (!locks_.insert(path).second) return Status::Busy(path + ": is locked");
  return std::unique_ptr<FileLock>(std::make_unique<HeldLock>(this, path));
}

std::vector<std::byte> MemoryFileSystem::Contents(const std::string& path) const {
  MutexLock lock(&mutex_);
  const Result<std::shared_ptr<File>> file = Find(path);
  MutexLock file_lock(&(*file)->mutex);
  return (*file)->written;
}

void MemoryFileSystem::SetContents(const std::string& path, std::vector<std::byte> contents) {
  MutexLock lock(&mutex_);
  const auto [place, inserted] = names_.try_emplace(path, std::make_shared<File>());
  MutexLock file_lock(&place->second->mutex);
  place->second->written = std::move(contents);
}

void MemoryFileSystem::PowerCut(uint64_t seed) {
  Random random(seed);
  MutexLock lock(&mutex_);
  // A name that was not synced survives or not; one that was removed or replaced may come back.
  Names survivors;
  std::set<std::string> paths;
  for (const Names* names : {&names_, &durable_names_}) {
    for (const auto& entry : *names) paths.insert(entry.first);
  }
  for (const std::string& path : paths) {
    const Names& from = random.OneIn(2) ? names_ : durable_names_;
    const auto found = from.find(path);
    if (found != from.end()) survivors.insert(*found);
  }
  for (const auto& [path, file] : survivors) {
    MutexLock file_lock(&file->mutex);
    file->written = Tear(file->written, file->durable, &random);
    file->durable = file->written;
  }
  names_ = survivors;
  durable_names_ = std::move(survivors);
}

}  // namespace attndb::test
