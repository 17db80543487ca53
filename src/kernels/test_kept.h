// For tests: memory for kept tokens, with guards that nothing may touch.
#ifndef ATTNDB_KERNELS_TEST_KEPT_H_
#define ATTNDB_KERNELS_TEST_KEPT_H_

#include <cmath>
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

  // Whether tokens and noise are equal, scores differ by at most `tolerance`, and nothing was
  // written beyond the memory.
  bool operator==(const TestKept& other) const { return IsCloseTo(other, 0.0f); }
  bool IsCloseTo(const TestKept& other, float tolerance) const {
    bool close = IsInside() && other.IsInside() && kept.count == other.kept.count;
    for (size_t i = 0; close && i < kept.count; ++i) {
      close = tokens_[i] == other.tokens_[i] && noise_[i] == other.noise_[i];
      for (size_t at = i; at < scores_.size(); at += kept.stride) {
        close = close && std::abs(scores_[at] - other.scores_[at]) <= tolerance;
      }
    }
    return close;
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
