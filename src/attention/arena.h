// Scratch memory of one thread's part of a call: grows to the largest call and is kept.
//
// Units:   bytes; every span is 64-byte aligned.
// Errors:  kResourceExhausted when the system has no memory.
// Threads: one thread at a time.
#ifndef ATTNDB_ATTENTION_ARENA_H_
#define ATTNDB_ATTENTION_ARENA_H_

#include <algorithm>
#include <cstddef>

#include "common/aligned_buffer.h"
#include "common/check.h"
#include "kernels/attention_state.h"

namespace attndb::attention {

// Bytes that Take<T>(count) uses up.
template <typename T>
constexpr size_t ArenaBytes(size_t count) {
  return (count * sizeof(T) + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

class Arena {
 public:
  // Forgets what was taken and makes room for num_bytes. Grows by half at least, so that a session
  // that gains one token a call does not allocate at each.
  Status Reset(size_t num_bytes) {
    used_ = 0;
    if (num_bytes <= buffer_.size()) return Status::Ok();
    ATTNDB_ASSIGN_OR_RETURN(
        buffer_, AlignedBuffer::Allocate(std::max(num_bytes, buffer_.size() + buffer_.size() / 2)));
    return Status::Ok();
  }

  // `count` elements, not initialised; valid until the next Reset.
  template <typename T>
  T* Take(size_t count) {
    const size_t begin = used_;
    used_ += ArenaBytes<T>(count);
    ATTNDB_CHECK(used_ <= buffer_.size());
    return reinterpret_cast<T*>(buffer_.data() + begin);
  }

  size_t size() const { return buffer_.size(); }

 private:
  AlignedBuffer buffer_;
  size_t used_ = 0;
};

// Rows of a state in the arena.
inline size_t StateBytes(size_t num_rows, size_t v_padded) {
  return 2 * ArenaBytes<float>(num_rows) + ArenaBytes<float>(num_rows * v_padded);
}
inline kernels::StateRows TakeStates(size_t num_rows, size_t v_padded, Arena* arena) {
  float* const max = arena->Take<float>(num_rows);
  float* const sum = arena->Take<float>(num_rows);
  return {max, sum, arena->Take<float>(num_rows * v_padded), v_padded};
}

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_ARENA_H_
