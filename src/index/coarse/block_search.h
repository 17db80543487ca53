// Internal to coarse: one search, for a group's q rows, in the blocks of a chain of runs.
//
// Group:   blocks are selected once for all rows. By bounds, a block's worth is the largest, over
//          rows, of its bound minus the row's best known score, as in pq/pq_index.h. So every row
//          gets its best blocks, although others may have larger scores. By representatives, the
//          worth is the sum of the rows' scores, as InfLLM sums over heads. A non-finite row does
//          not count. A row may still starve, by ties of another row or because another row is much
//          longer; it then gets its share of the blocks first (fair_share.h).
// Whole:   blocks of most worth are selected whole, as long as another whole block fits into effort
//          x k keys; at least one is selected. Hidden keys of the first and last visible block are
//          left out.
// Effort:  1, the default, is as published: every row finds all selected keys. With more effort,
//          each row finds the k best of the selected keys.
// Numbers: visible blocks are numbered through all runs.
// Memory:  the caller's scratch; nothing is allocated.
// Threads: one thread a search.
#ifndef ATTNDB_INDEX_COARSE_BLOCK_SEARCH_H_
#define ATTNDB_INDEX_COARSE_BLOCK_SEARCH_H_

#include <cstddef>
#include <cstdint>

#include "index/coarse/block_keys.h"
#include "index/coarse/listed_keys.h"
#include "index/fair_share.h"

namespace attndb::index {

class BlockSearch {
 public:
  // All arguments must outlive it. REQUIRES: the runs' indexes are BlockKeys of one form. Null
  // scratch: only measures scratch_bytes().
  BlockSearch(const IndexCall& call, void* scratch, SearchCost* cost);

  size_t scratch_bytes() const { return scratch_.num_bytes(); }
  Status Run(FoundKeys* found);

 private:
  struct BlockRange {
    size_t first = 0;
    size_t count = 0;
  };

  static const BlockKeys& KeysOf(const IndexRun& run) {
    return static_cast<const BlockKeys&>(*run.index);
  }
  static BlockRange VisibleBlocks(const IndexRun& run);
  static size_t CountBlocks(const IndexCall& call);  // Blocks with a visible key.
  const float* ScoresOf(size_t row) const { return scores_ + row * num_blocks_; }
  // Calls f(run, first, end) for the visible keys of each selected block, in ascending order.
  template <typename F>
  void ForEachSelected(const F& f) const;

  void ScoreBlocks();
  float BestOf(size_t row) const;
  void RateByBest();
  void RateBySum();
  void SelectByWorth();
  void SelectBlocks();
  size_t NumKeysSelected() const;
  void ListKeys();

  const IndexCall& call_;
  SearchCost* const cost_;
  SearchScratch scratch_;
  const BlockShape& shape_;
  const size_t num_keys_;
  const size_t num_blocks_;
  float* const queries_;      // [q row], prepared.
  float* const scores_;       // [q row][block]
  float* const worth_;        // [block]
  uint32_t* const selected_;  // Blocks, ascending.
  size_t num_selected_ = 0;
  FairShare fair_;
  ListedKeys listed_;
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_COARSE_BLOCK_SEARCH_H_
