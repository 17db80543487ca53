// Owned memory aligned for SIMD rows.
//
// Large buffers are mappings of their own: they ask for huge pages, and go back to the system when
// they are freed, so that a memory limit is one of the process and not only of our accounts.
//
// Units:   bytes; data() is a multiple of kBufferAlignment.
// Errors:  kResourceExhausted with the size, if the system has no memory.
// Threads: thread-compatible.
#ifndef ATTNDB_COMMON_ALIGNED_BUFFER_H_
#define ATTNDB_COMMON_ALIGNED_BUFFER_H_

#include <cstddef>
#include <memory>
#include <span>

#include "attndb/result.h"

namespace attndb {

inline constexpr size_t kBufferAlignment = 64;  // A cache line, an AVX-512 register.

class AlignedBuffer {
 public:
  AlignedBuffer() = default;  // Empty.

  // Contents are indeterminate: write before you read.
  static Result<AlignedBuffer> Allocate(size_t num_bytes);
  static Result<AlignedBuffer> AllocateZeroed(size_t num_bytes);

  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  size_t size() const { return size_; }
  std::span<std::byte> span() { return {data(), size()}; }
  std::span<const std::byte> span() const { return {data(), size()}; }

 private:
  // Unmaps mapped_bytes, or frees if they are 0.
  struct Free {
    Free() : mapped_bytes(0) {}
    void operator()(std::byte* data) const;
    size_t mapped_bytes;
  };

  AlignedBuffer(std::byte* data, Free free, size_t size) : data_(data, free), size_(size) {}

  std::unique_ptr<std::byte, Free> data_;
  size_t size_ = 0;
};

}  // namespace attndb

#endif  // ATTNDB_COMMON_ALIGNED_BUFFER_H_
