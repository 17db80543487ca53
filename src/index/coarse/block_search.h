// Internal to coarse: one search of a group's q rows in the blocks of a chain of runs.
//
// Group:   the blocks are selected once for all rows. By bounds, a block's worth is the largest,
//          over rows, of its bound less the best that the row knows of, as product codes have it
//          (pq/pq_index.h): no row goes without its best blocks because others have larger scores.
//          By representatives it is the sum of the rows' scores, as InfLLM adds up those of heads.
//          A row that is not finite has no say.
// Whole:   blocks are selected whole, those of most worth, as long as another whole one fits into
//          effort x k keys, and one in any case. What the first and last visible block hold of
//          hidden keys is left out.
// Effort:  1, the default, is as published: every row finds all that was selected. With more,
//          each row finds its k best of it.
// Numbers: blocks are numbered through the visible ones of all runs.
// Memory:  the caller's scratch; nothing is allocated.
// Threads: one thread a search.
#ifndef ATTNDB_INDEX_COARSE_BLOCK_SEARCH_H_
#define ATTNDB_INDEX_COARSE_BLOCK_SEARCH_H_

#include <cstddef>
#include <cstdint>

#include "index/coarse/block_keys.h"

namespace attndb::index {

class BlockSearch {
 public:
  // All must outlive it. REQUIRES: the runs' indexes are BlockKeys of one form. Null scratch:
  // measures.
  BlockSearch(const IndexCall& call, void* scratch, SearchCost* cost);

  size_t scratch_bytes() const { return num_bytes_; }
  Status Run(FoundKeys* found);

 private:
  struct BlockRange {
    size_t first = 0;
    size_t count = 0;
  };

  template <typename T>
  T* Take(size_t count);
  static const BlockKeys& KeysOf(const IndexRun& run) {
    return static_cast<const BlockKeys&>(*run.index);
  }
  static BlockRange VisibleBlocks(const IndexRun& run);
  const float* ScoresOf(size_t row) const { return scores_ + row * num_blocks_; }
  // Calls f(run, first, end) for the visible keys of each selected block, which ascend.
  template <typename F>
  void ForEachSelected(const F& f) const;

  void ScoreBlocks();
  void RateByBest();
  void RateBySum();
  void SelectBlocks();
  size_t NumKeysSelected() const;
  void ListKeys();
  Status ScoreKeys();
  void Choose(size_t row, FoundKeys* found) const;

  const IndexCall& call_;
  SearchCost* const cost_;
  std::byte* const next_;
  size_t num_bytes_ = 0;
  const BlockShape& shape_;
  size_t num_keys_ = 0;           // Visible,
  size_t num_blocks_ = 0;         // ... and blocks of which some key is.
  size_t num_selected_ = 0;       // Blocks,
  size_t num_listed_ = 0;         // ... and their visible keys.
  float* queries_ = nullptr;      // [q row], prepared.
  float* scores_ = nullptr;       // [q row][block]
  float* worth_ = nullptr;        // [block]
  uint32_t* selected_ = nullptr;  // Blocks, ascending.
  size_t* counts_ = nullptr;      // [run]: its keys that are listed.
  uint32_t* keys_ = nullptr;      // Listed, by run,
  uint32_t* tokens_ = nullptr;    // ... and as tokens.
  float* exact_ = nullptr;        // [q row][listed], num_keys_ apart.
  uint32_t* chosen_ = nullptr;    // A row's choice of what is listed.
  std::byte* select_ = nullptr;   // Of kernels::SelectTopK.
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_COARSE_BLOCK_SEARCH_H_
