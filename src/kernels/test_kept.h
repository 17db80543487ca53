// For tests: room for kept tokens, with guards that nothing may touch.
#ifndef ATTNDB_KERNELS_TEST_KEPT_H_
#define ATTNDB_KERNELS_TEST_KEPT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/draw.h"

namespace attndb::kernels {

class TestKept {
 public:
  TestKept(size_t num_rows, size_t num_tokens)
      : tokens_(num_tokens + 1, kGuard), noise_(num_tokens + 1, kGuard) {
    scores_.assign(num_rows * (num_tokens + 1), kGuard);
    kept = {tokens_.data(), noise_.data(), scores_.data(), num_tokens + 1, 0};
  }
  TestKept(const TestKept&) = delete;
  TestKept& operator=(const TestKept&) = delete;

  bool IsInside() const {
    bool inside = tokens_.back() == kGuard && noise_.back() == kGuard;
    for (size_t i = noise_.size(); i <= scores_.size(); i += noise_.size()) {
      inside = inside && scores_[i - 1] == kGuard;
    }
    return inside;
  }

  // The same tokens, noise and scores, and nothing beyond the room.
  bool operator==(const TestKept& other) const {
    const size_t count = kept.count;
    bool equal = IsInside() && other.IsInside() && count == other.kept.count &&
                 scores_.size() == other.scores_.size() &&
                 std::equal(tokens_.begin(), tokens_.begin() + static_cast<std::ptrdiff_t>(count),
                            other.tokens_.begin()) &&
                 std::equal(noise_.begin(), noise_.begin() + static_cast<std::ptrdiff_t>(count),
                            other.noise_.begin());
    for (size_t row = 0; row < scores_.size(); row += kept.stride) {
      for (size_t i = row; i < row + count; ++i) equal = equal && scores_[i] == other.scores_[i];
    }
    return equal;
  }

  KeptTokens kept;

 private:
  static constexpr uint32_t kGuard = 77777;

  std::vector<uint32_t> tokens_;
  std::vector<float> noise_;
  std::vector<float> scores_;
};

}  // namespace attndb::kernels

#endif  // ATTNDB_KERNELS_TEST_KEPT_H_
