#include "common/aligned_buffer.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "attndb/units.h"
#include "common/checked_math.h"

namespace attndb {
namespace {

constexpr size_t kHugePageBytes = size_t{2} << 20;

constexpr size_t kPageBytes = 4096;

// Below this a mapping costs more than it saves in page faults and TLB misses.
constexpr size_t kMapThreshold = 2 * kHugePageBytes;

constexpr size_t kMaxBufferBytes = size_t{1} << 62;

// A mapping of `num_bytes`, whole small pages, that starts on a huge page; null if there is none.
std::byte* Map(size_t num_bytes) {
  // Mapped with room to align, and cut at both ends.
  const size_t mapped_bytes = num_bytes + kHugePageBytes;
  void* const mapping =
      mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<std::byte*>(mapping);
  const size_t skipped = -reinterpret_cast<uintptr_t>(begin) % kHugePageBytes;
  if (skipped > 0) (void)munmap(begin, skipped);
  if (skipped < kHugePageBytes) {
    (void)munmap(begin + skipped + num_bytes, kHugePageBytes - skipped);
  }
  // Only advice: where it is refused the buffer is as good, but slower to fault in.
  (void)madvise(begin + skipped, num_bytes, MADV_HUGEPAGE);
  return begin + skipped;
}

}  // namespace

void AlignedBuffer::Free::operator()(std::byte* data) const {
  if (mapped_bytes > 0) {
    (void)munmap(data, mapped_bytes);
  } else {
    std::free(data);
  }
}

Result<AlignedBuffer> AlignedBuffer::Allocate(size_t num_bytes) {
  if (num_bytes == 0) return AlignedBuffer();
  void* data = nullptr;
  Free free;
  if (num_bytes > kMaxBufferBytes) {
    // Nothing: rounding it up would overflow.
  } else if (num_bytes >= kMapThreshold) {
    free.mapped_bytes = RoundUp(num_bytes, kPageBytes);
    data = Map(free.mapped_bytes);
  } else if (posix_memalign(&data, kBufferAlignment, RoundUp(num_bytes, kBufferAlignment)) != 0) {
    data = nullptr;
  }
  if (data == nullptr) {
    return Status::ResourceExhausted("the system has no memory for a buffer of " +
                                     FormatBytes(num_bytes));
  }
  return AlignedBuffer(static_cast<std::byte*>(data), free, num_bytes);
}

Result<AlignedBuffer> AlignedBuffer::AllocateZeroed(size_t num_bytes) {
  Result<AlignedBuffer> buffer = Allocate(num_bytes);
  if (buffer.ok() && num_bytes > 0) std::memset(buffer->data(), 0, num_bytes);
  return buffer;
}

}  // namespace attndb
