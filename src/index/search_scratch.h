// The caller's scratch, cut into arrays: measured with none, and then cut alike.
//
// Threads: for one thread.
#ifndef ATTNDB_INDEX_SEARCH_SCRATCH_H_
#define ATTNDB_INDEX_SEARCH_SCRATCH_H_

#include <cstddef>

#include "common/checked_math.h"

namespace attndb::index {

class SearchScratch {
 public:
  // Null: measures.
  explicit SearchScratch(void* begin) : begin_(static_cast<std::byte*>(begin)) {}

  // Null while it measures.
  template <typename T>
  T* Take(size_t count) {
    constexpr size_t kAlignment = 64;
    std::byte* const piece = begin_ == nullptr ? nullptr : begin_ + num_bytes_;
    num_bytes_ += RoundUp(count * sizeof(T), kAlignment);
    return reinterpret_cast<T*>(piece);
  }

  size_t num_bytes() const { return num_bytes_; }

 private:
  std::byte* const begin_;
  size_t num_bytes_ = 0;
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_SEARCH_SCRATCH_H_
