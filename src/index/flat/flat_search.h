// Search by a scan over scores of all tokens: top-k and DIPR.
//
// Threads: constant after construction.
// Source:  DIPR: AlayaDB (arXiv:2504.10326) 6.1, Definition 1.
#ifndef ATTNDB_INDEX_FLAT_FLAT_SEARCH_H_
#define ATTNDB_INDEX_FLAT_FLAT_SEARCH_H_

#include <algorithm>
#include <cstdint>

#include "index/critical_search.h"

namespace attndb::index {

// How many tokens of the middle are selected where `ratio` of all tokens are to be attended to,
// sinks and window included ([PQC] 4.1): at least one.
inline uint32_t CountOfRatio(double ratio, uint64_t num_tokens, uint64_t num_fixed) {
  const double count = ratio * static_cast<double>(num_tokens) - static_cast<double>(num_fixed);
  return static_cast<uint32_t>(std::max(1.0, count));
}

// The k middle tokens of largest score; of equal scores the earlier token.
class FlatTopK final : public CriticalSearch {
 public:
  explicit FlatTopK(uint32_t k) : k_(k) {}
  // k is CountOfRatio of each call. `num_static` tokens are fixed in addition to sinks and window.
  static FlatTopK OfRatio(double ratio, uint32_t num_static = 0) {
    FlatTopK search(0);
    search.ratio_ = ratio;
    search.num_static_ = num_static;
    return search;
  }

  size_t ScratchBytes(size_t num_visible) const override;
  size_t Search(const SearchCall& call, uint32_t* indices, void* scratch) const override;
  size_t Refine(const SearchCall& call, float max, uint32_t* indices, size_t num_indices,
                void* scratch) const override;

 private:
  uint32_t K(const SearchCall& call) const;

  uint32_t k_;
  double ratio_ = 0;         // 0: k_ is used.
  uint32_t num_static_ = 0;  // For a ratio.
};

// Every middle token with score >= max - beta, where max is over all visible tokens: sinks, window
// and tail may hold it.
class FlatDipr final : public CriticalSearch {
 public:
  explicit FlatDipr(float beta) : beta_(beta) {}

  size_t ScratchBytes(size_t num_visible) const override;
  size_t Search(const SearchCall& call, uint32_t* indices, void* scratch) const override;
  size_t Refine(const SearchCall& call, float max, uint32_t* indices, size_t num_indices,
                void* scratch) const override;

 private:
  const float beta_;
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_FLAT_FLAT_SEARCH_H_
