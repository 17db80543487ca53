// Scratch memory of a call, handed out piece by piece from one block.
//
//   Arena measure;                      // No memory: only counts.
//   TakeScratch(&measure);
//   Arena arena(memory, measure.used());
//   TakeScratch(&arena);                // The same pieces, for use.
//
// So only the function that takes the pieces knows how much a call needs.
//
// Units:   bytes; every piece is 64-byte aligned.
// Threads: one thread at a time.
#ifndef ATTNDB_ATTENTION_ARENA_H_
#define ATTNDB_ATTENTION_ARENA_H_

#include <cstddef>

#include "common/aligned_buffer.h"
#include "common/check.h"
#include "kernels/attention_state.h"

namespace attndb::attention {

class Arena {
 public:
  Arena() = default;  // Measures only.
  // Hands out pieces of `memory`. REQUIRES: memory is 64-byte aligned, and outlives the pieces.
  Arena(std::byte* memory, size_t num_bytes) : memory_(memory), num_bytes_(num_bytes) {}

  // `count` elements, not initialised; null while it only measures.
  template <typename T>
  T* Take(size_t count) {
    const size_t begin = used_;
    used_ += (count * sizeof(T) + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
    if (memory_ == nullptr) return nullptr;
    ATTNDB_CHECK(used_ <= num_bytes_);
    return reinterpret_cast<T*>(memory_ + begin);
  }

  size_t used() const { return used_; }

 private:
  std::byte* memory_ = nullptr;
  size_t num_bytes_ = 0;
  size_t used_ = 0;
};

inline kernels::StateRows TakeStates(size_t num_rows, size_t v_padded, Arena* arena) {
  float* const max = arena->Take<float>(num_rows);
  float* const sum = arena->Take<float>(num_rows);
  return {max, sum, arena->Take<float>(num_rows * v_padded), v_padded};
}

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_ARENA_H_
