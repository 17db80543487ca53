// Search by a scan over scores of all tokens: top-k and DIPR.
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

  size_t ScratchBytes(size_t num_visible) const override;
  size_t Search(const SearchCall& call, uint32_t* indices, void* scratch) const override;
  size_t Refine(const SearchCall& call, float max, uint32_t* indices, size_t num_indices,
                void* scratch) const override;

 private:
  const uint32_t k_;
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
