// Cuts the caller's scratch into arrays. With no scratch it measures how much is needed.
//
// Threads: for one thread.
#ifndef ATTNDB_INDEX_SEARCH_SCRATCH_H_
#define ATTNDB_INDEX_SEARCH_SCRATCH_H_

#include <cstddef>

#include "common/checked_math.h"

namespace attndb::index {

class SearchScratch {
 public:
  // Null: only measures.
  explicit SearchScratch(void* begin) : begin_(static_cast<std::byte*>(begin)) {}

  // The next `count` elements; null while it only measures.
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
