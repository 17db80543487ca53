// Fair shares for the q rows of a group whose search selects items (keys, blocks or clusters) once
// for all rows, by one worth. Equal or nearly equal items of one row can fill such a selection, and
// another row then gets none of its own best.
//
// Share:   a row's share of a selection is its own best num_selected / num_rows items, one at
//          least, by the index's scores. A row starves if the selection holds less than kLeastHeld
//          of the weight that its share would hold.
// Rule:    starved rows get their share, one row after another, until the shares fill the
//          selection. The other items are chosen by worth. A row may still starve if there are
//          fewer items than rows.
// Weights: exp(logit) of scores. The tokens that a row always attends to (sinks, window) count as
//          one token with the row's best known score. If that is far above the items, no item
//          matters.
// Usual case: no row starves, and the selection stays as it was. This costs the weights of the
//          selected items, row by row.
// Memory:  the caller's scratch; nothing is allocated.
// Threads: one thread a search.
#ifndef ATTNDB_INDEX_FAIR_SHARE_H_
#define ATTNDB_INDEX_FAIR_SHARE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "index/key_index.h"
#include "index/search_scratch.h"

namespace attndb::index {

// The items that a selection is made of.
struct RatedItems {
  const float* scores = nullptr;  // [q row][item], `count` apart; -inf: may not be selected.
  size_t count = 0;
  float* worth = nullptr;  // [item]: the items of most worth are selected.
  // Whether worth is the largest, over rows, of the score minus the row's best. The least worth of
  // a selected item then bounds the scores of all other items.
  bool is_margin = false;
};

class FairShare {
 public:
  static constexpr double kLeastHeld = 0.9;

  // max_items: limit of RatedItems::count. The call must outlive it.
  FairShare(const IndexCall& call, size_t max_items, SearchScratch* scratch);

  // Sets the best score of a row, over its items and other known tokens. Not finite: the row does
  // not count. Called for each row before the first selection.
  void SetBest(size_t row, float best) {
    best_[row] = best;
    fed_[row] = 0;
    share_sizes_[row] = 0;
  }

  // Looks for a row that starves under a selection. If there is one, makes the items of its share
  // worth more than all others and returns true: the caller then selects again.
  bool Feed(const RatedItems& items, std::span<const uint32_t> selected, void* select_scratch);

  // Selects `count` items of most worth again, once Feed returned true: as SelectTopK over all
  // items would, but it looks only at the items that were selected and at the share. Writes to
  // `selected`, the selection that Feed saw, and returns how many. REQUIRES: count is the number of
  // items that were selected.
  size_t SelectAgain(const RatedItems& items, size_t count, uint32_t* selected,
                     void* select_scratch);

 private:
  // Rows that have a say.
  size_t NumRows() const;
  size_t ShareOf(std::span<const uint32_t> selected) const {
    return std::max<size_t>(1, selected.size() / std::max<size_t>(1, NumRows()));
  }
  // Returns 0 unless the row starves; else writes its share to share_ and returns how many it has.
  size_t FindMissed(size_t row, const RatedItems& items, std::span<const uint32_t> selected,
                    void* select_scratch);
  // Writes the scores of listed items to weights_.
  void Gather(const float* scores, std::span<const uint32_t> list);
  // Returns a bound of the number of items in the row's share that are not selected. None of them
  // scores more than *most. weights_ holds the scores of the selected items; their order may
  // change.
  size_t MostMissing(size_t row, size_t share, const RatedItems& items,
                     std::span<const uint32_t> selected, float* most);
  // The weight of the row's scores in weights_, relative to that of its best score.
  double Weigh(size_t row, size_t count);

  const IndexCall& call_;
  size_t num_fed_ = 0;
  float* const best_;   // [q row]
  uint8_t* const fed_;  // [q row]: whether it has got its share.
  // [q row]: the size of the share that was weighed last, 0 for none, and its weight.
  size_t* const share_sizes_;
  double* const share_weights_;
  float least_ = 0;        // The least worth of a selected item.
  float* const weights_;   // Room for the weights of all items.
  uint32_t* const share_;  // Items of a share.
  size_t num_share_ = 0;
  uint32_t* const either_;  // Room for all items: selected ones and those of the share.
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_FAIR_SHARE_H_
