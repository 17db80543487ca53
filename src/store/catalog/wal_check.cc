#include "store/catalog/wal_check.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <thread>
#include <utility>

#include "store/catalog/checked_vfs.h"

namespace attndb::store {
namespace {

constexpr size_t kLogHeaderBytes = 32;
constexpr size_t kFrameHeaderBytes = 24;
constexpr size_t kFrameBytes = kFrameHeaderBytes + kPageBytes;
constexpr uint32_t kMagic = 0x377f0682;  // The lowest bit says in which byte order sums are made.
constexpr uint32_t kLogVersion = 3007000;

uint32_t BigEndian32(std::span<const std::byte> bytes, size_t offset) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | std::to_integer<uint32_t>(bytes[offset + i]);
  return value;
}

// SQLite's two running sums over 32-bit words.
struct LogSum {
  uint32_t a = 0;
  uint32_t b = 0;
  bool big_endian = false;

  void Add(std::span<const std::byte> bytes) {
    const auto word = [&](size_t offset) {
      const uint32_t value = BigEndian32(bytes, offset);
      return big_endian ? value : __builtin_bswap32(value);
    };
    for (size_t i = 0; i + 8 <= bytes.size(); i += 8) {
      a += word(i) + b;
      b += word(i + 4) + a;
    }
  }
  bool IsAt(std::span<const std::byte> bytes, size_t offset) const {
    return BigEndian32(bytes, offset) == a && BigEndian32(bytes, offset + 4) == b;
  }
};

class LogFile {
 public:
  explicit LogFile(const std::string& path)
      : path_(path), fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC)), errno_(errno) {}
  ~LogFile() {
    if (fd_ >= 0) close(fd_);
  }
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  bool is_missing() const { return fd_ < 0 && errno_ == ENOENT; }

  // False: the file ends before.
  Result<bool> Read(uint64_t offset, std::span<std::byte> out) const {
    if (fd_ < 0) return Status::IoError(path_ + ": open: " + std::strerror(errno_));
    const ssize_t num_read = pread(fd_, out.data(), out.size(), static_cast<off_t>(offset));
    if (num_read < 0) return Status::IoError(path_ + ": read: " + std::strerror(errno));
    return static_cast<size_t>(num_read) == out.size();
  }

 private:
  const std::string path_;
  const int fd_;
  const int errno_;
};

bool IsSoundHeader(std::span<const std::byte> header, LogSum* sum) {
  const uint32_t magic = BigEndian32(header, 0);
  sum->big_endian = (magic & 1) != 0;
  sum->Add(header.first(24));
  return (magic & ~1u) == kMagic && BigEndian32(header, 4) == kLogVersion &&
         BigEndian32(header, 8) == kPageBytes && sum->IsAt(header, 24);
}

Status CheckOnce(const std::string& path) {
  const LogFile file(path);
  if (file.is_missing()) return {};
  std::array<std::byte, kLogHeaderBytes> header;
  ATTNDB_ASSIGN_OR_RETURN(const bool has_header, file.Read(0, header));
  std::array<std::byte, kFrameBytes> frame;
  ATTNDB_ASSIGN_OR_RETURN(bool has_frame, file.Read(kLogHeaderBytes, frame));
  if (!has_header || !has_frame) return {};  // Frames follow only when the header is on disk.
  LogSum sum;
  if (!IsSoundHeader(header, &sum)) return Status::Corruption(path + ": header is damaged");

  uint64_t unsound_frame = 0;  // The first one, from 1; 0 = none so far.
  bool commit_after = false;   // A commit at or behind it.
  for (uint64_t i = 1; has_frame; ++i) {
    const std::span<const std::byte> bytes = frame;
    // Frames of an earlier log, which this one overwrites, have other salts.
    const bool is_of_this_log = std::memcmp(&frame[8], &header[16], 8) == 0;
    if (unsound_frame == 0) {
      sum.Add(bytes.first(8));
      sum.Add(bytes.subspan(kFrameHeaderBytes));
      if (!is_of_this_log || !sum.IsAt(bytes, 16)) unsound_frame = i;
    } else if (is_of_this_log && commit_after) {
      return Status::Corruption(path + ": frame " + std::to_string(unsound_frame) +
                                " is damaged: commits follow it");
    }
    // The first unsound frame is of this log if a later one is, whatever became of its salts.
    const bool is_commit = BigEndian32(bytes, 4) != 0;
    const bool counts = is_of_this_log || unsound_frame == i;
    if (unsound_frame != 0 && is_commit && counts) commit_after = true;
    ATTNDB_ASSIGN_OR_RETURN(has_frame, file.Read(kLogHeaderBytes + i * kFrameBytes, frame));
  }
  return {};
}

}  // namespace

Status CheckWriteAheadLog(const std::string& path) {
  // A frame that another process was writing when it was read is sound when it is read again.
  constexpr int kTries = 3;
  Status status;
  for (int i = 0; i < kTries; ++i) {
    if (i > 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    status = CheckOnce(path);
    if (status.code() != StatusCode::kCorruption) break;
  }
  return status;
}

}  // namespace attndb::store
