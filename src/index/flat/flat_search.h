// Exact search over exact scores: top-k and DIPR.
//
// Threads: constant after construction.
// Source:  DIPR: AlayaDB (arXiv:2504.10326) 6.1, Definition 1.
#ifndef ATTNDB_INDEX_FLAT_FLAT_SEARCH_H_
#define ATTNDB_INDEX_FLAT_FLAT_SEARCH_H_

#include "index/critical_search.h"

namespace attndb::index {

// The k middle tokens of largest score; of equal scores the earlier token.
class FlatTopK final : public CriticalSearch {
 public:
  explicit FlatTopK(uint32_t k) : k_(k) {}

  size_t NumIndices(size_t num_middle) const override;
  size_t ScratchBytes(size_t num_middle) const override;
  size_t Search(const float* scores, size_t num_visible, TokenRange middle, uint32_t* indices,
                void* scratch) const override;

 private:
  const uint32_t k_;
};

// Every middle token with score >= max - beta, where max is over all visible tokens: sinks, window
// and tail may hold it.
class FlatDipr final : public CriticalSearch {
 public:
  explicit FlatDipr(float beta) : beta_(beta) {}

  size_t NumIndices(size_t num_middle) const override;
  size_t ScratchBytes(size_t num_middle) const override;
  size_t Search(const float* scores, size_t num_visible, TokenRange middle, uint32_t* indices,
                void* scratch) const override;

 private:
  const float beta_;
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_FLAT_FLAT_SEARCH_H_
