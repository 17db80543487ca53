// The disk half of machine.h.
#include <fcntl.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "cli/common/machine.h"
#include "cli/common/progress.h"

namespace attndb::cli {
namespace {

constexpr size_t kBlockBytes = size_t{1} << 20;
constexpr size_t kAlignment = 4096;  // The alignment that O_DIRECT asks for on all common disks.
constexpr int kFsyncs = 20;

// A file descriptor and the file behind it, which is unlinked from the start.
class ScratchFile {
 public:
  static Result<ScratchFile> Create(const std::string& folder) {
    std::string path = folder + "/attndb-doctor-XXXXXX";
    const int fd = mkstemp(path.data());
    if (fd < 0) {
      return Status::IoError("cannot write to '" + folder + "': " + std::strerror(errno));
    }
    // The read side is opened while there is a name for it.
    const int direct = open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
    unlink(path.c_str());
    return ScratchFile(fd, direct);
  }

  ScratchFile(ScratchFile&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), direct_fd_(std::exchange(other.direct_fd_, -1)) {}
  ScratchFile& operator=(ScratchFile&&) = delete;
  ~ScratchFile() {
    if (fd_ >= 0) close(fd_);
    if (direct_fd_ >= 0) close(direct_fd_);
  }

  int fd() const { return fd_; }
  int direct_fd() const { return direct_fd_; }  // -1 where the file system has no O_DIRECT.

 private:
  ScratchFile(int fd, int direct_fd) : fd_(fd), direct_fd_(direct_fd) {}

  int fd_;
  int direct_fd_;
};

struct FreeDeleter {
  void operator()(void* memory) const { std::free(memory); }
};
using Block = std::unique_ptr<void, FreeDeleter>;

Status Failed(const char* what) {
  return Status::IoError(std::string(what) + " failed: " + std::strerror(errno));
}

Result<double> MedianFsyncSeconds(int fd, const void* block) {
  std::vector<double> seconds;
  for (int i = 0; i < kFsyncs; ++i) {
    const double start = MonotonicSeconds();
    const ssize_t written = pwrite(fd, block, kAlignment, i * static_cast<off_t>(kAlignment));
    if (written != static_cast<ssize_t>(kAlignment)) return Failed("a write of 4 KiB");
    if (fsync(fd) != 0) return Failed("fsync");
    seconds.push_back(MonotonicSeconds() - start);
  }
  std::nth_element(seconds.begin(), seconds.begin() + kFsyncs / 2, seconds.end());
  return seconds[kFsyncs / 2];
}

Status Fill(int fd, const void* block, uint64_t file_bytes) {
  for (uint64_t offset = 0; offset < file_bytes; offset += kBlockBytes) {
    const ssize_t written = pwrite(fd, block, kBlockBytes, static_cast<off_t>(offset));
    if (written != static_cast<ssize_t>(kBlockBytes)) return Failed("writing a test file");
  }
  return fsync(fd) == 0 ? Status() : Failed("fsync");
}

Result<double> ReadSeconds(int fd, void* block, uint64_t file_bytes) {
  const double start = MonotonicSeconds();
  for (uint64_t offset = 0; offset < file_bytes; offset += kBlockBytes) {
    const ssize_t num_bytes = pread(fd, block, kBlockBytes, static_cast<off_t>(offset));
    if (num_bytes != static_cast<ssize_t>(kBlockBytes)) return Failed("reading a test file");
  }
  return MonotonicSeconds() - start;
}

std::string FilesystemName(uint64_t magic) {
  constexpr std::array<std::pair<uint64_t, const char*>, 11> kNames = {{{0xEF53, "ext4"},
                                                                        {0x58465342, "xfs"},
                                                                        {0x9123683E, "btrfs"},
                                                                        {0x01021994, "tmpfs"},
                                                                        {0x794C7630, "overlayfs"},
                                                                        {0x6969, "nfs"},
                                                                        {0x2FC12FC1, "zfs"},
                                                                        {0xF2F52010, "f2fs"},
                                                                        {0x65735546, "fuse"},
                                                                        {0x01021997, "9p"},
                                                                        {0xFF534D42, "cifs"}}};
  for (const auto& [number, name] : kNames) {
    if (number == magic) return name;
  }
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "0x%llx", static_cast<unsigned long long>(magic));
  return text.data();
}

}  // namespace

Result<DiskInfo> ReadDiskInfo(const std::string& folder) {
  struct statfs info = {};
  if (statfs(folder.c_str(), &info) != 0) {
    return Status::IoError("cannot look at '" + folder + "': " + std::strerror(errno));
  }
  const auto block_bytes = static_cast<uint64_t>(info.f_bsize);
  DiskInfo disk;
  disk.filesystem = FilesystemName(static_cast<uint64_t>(info.f_type) & 0xFFFFFFFFU);
  disk.total_bytes = info.f_blocks * block_bytes;
  disk.free_bytes = info.f_bavail * block_bytes;
  disk.writable = access(folder.c_str(), W_OK) == 0;
  return disk;
}

Result<DiskSpeed> MeasureDisk(const std::string& folder, uint64_t file_bytes) {
  ATTNDB_ASSIGN_OR_RETURN(const ScratchFile file, ScratchFile::Create(folder));
  const Block block(std::aligned_alloc(kAlignment, kBlockBytes));
  if (block == nullptr) return Status::ResourceExhausted("no memory for a block of 1 MiB");
  // Not zeros: some disks and file systems do not store these.
  auto* const bytes = static_cast<unsigned char*>(block.get());
  for (size_t i = 0; i < kBlockBytes; ++i) bytes[i] = static_cast<unsigned char>(i * 131 + i / 251);
  const uint64_t rounded = (file_bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
  DiskSpeed speed;
  ATTNDB_ASSIGN_OR_RETURN(speed.fsync_seconds, MedianFsyncSeconds(file.fd(), block.get()));
  ATTNDB_RETURN_IF_ERROR(Fill(file.fd(), block.get(), rounded));
  posix_fadvise(file.fd(), 0, 0, POSIX_FADV_DONTNEED);
  Result<double> seconds = Status::IoError("no O_DIRECT");
  if (file.direct_fd() >= 0) seconds = ReadSeconds(file.direct_fd(), block.get(), rounded);
  speed.direct = seconds.ok();
  if (!speed.direct) {
    ATTNDB_ASSIGN_OR_RETURN(seconds, ReadSeconds(file.fd(), block.get(), rounded));
  }
  speed.read_bytes_per_second = static_cast<double>(rounded) / *seconds;
  return speed;
}

}  // namespace attndb::cli
