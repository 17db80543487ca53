// Internal to pq: a search's data on the scores of all visible keys, for all of its q rows:
// estimates by codes, bounds of their errors, and exact scores of selected keys.
//
// Places:  number the visible keys of all runs, one run after another.
// Units:   a deviation is that of a score's error, before scale.
// Memory:  the search's scratch.
// Errors:  ScoreSelected: those of reads.
// Threads: one thread a search.
#ifndef ATTNDB_INDEX_PQ_PQ_ESTIMATES_H_
#define ATTNDB_INDEX_PQ_PQ_ESTIMATES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "attndb/result.h"
#include "index/key_index.h"
#include "index/pq/pq_keys.h"
#include "index/search_scratch.h"
#include "kernels/product_codes.h"

namespace attndb::index {

class PqEstimates {
 public:
  // The call must outlive it. A scratch without memory measures.
  PqEstimates(const IndexCall& call, SearchScratch* scratch, SearchCost* cost);

  // Fills in all members below, except the selection.
  void Find();

  size_t num_places() const { return num_places_; }
  size_t num_outliers() const { return num_outliers_; }
  // If false, a search by mass scores all keys exactly, and other searches go by estimates alone.
  bool HasFewOutliers() const { return num_outliers_ <= num_places_ / kOutlierPart; }
  bool IsOutlier(size_t place) const { return outliers_[place] != 0; }
  // The row's estimates, [place]. Rows are num_places() apart.
  float* scores(size_t row) { return scores_ + row * num_places_; }
  const float* scores(size_t row) const { return scores_ + row * num_places_; }
  // The largest deviation of any row and run.
  float margin() const { return margin_; }
  // Deviation of the row's estimates in a run; not finite where codes tell nothing.
  float RawErrorOf(size_t row, size_t run) const { return errors_[row * call_.runs.size() + run]; }
  // The same, but not so small that it is no matter.
  float ErrorOf(size_t row, size_t run) const {
    return std::max(RawErrorOf(row, run), kLeastNats / call_.spec.logit.scale);
  }
  // The deviation if codes say all keys of the block as badly as one of them.
  float MostOff(size_t row, size_t run, size_t block) const;

  // Calls f(block, begin, end) for the visible keys of each block of the run.
  template <typename F>
  static void ForEachBlock(const IndexRun& run, const F& f) {
    for (size_t begin = run.first_visible; begin < run.num_visible;) {
      const size_t block = begin / kernels::kCodeKeys;
      const size_t end = std::min((block + 1) * kernels::kCodeKeys, run.num_visible);
      f(block, begin, end);
      begin = end;
    }
  }

  // Room for places that are selected, ascending. REQUIRES: set_num_selected once they are written.
  uint32_t* places() { return places_; }
  const uint32_t* places() const { return places_; }
  void set_num_selected(size_t num_selected) { num_selected_ = num_selected; }
  size_t num_selected() const { return num_selected_; }
  // Writes the selected keys' exact scores, [q row][selected], num_places() apart. `exact` may be
  // scores(0), which then holds no estimates any more.
  Status ScoreSelected(float* exact);
  // Tokens of the call, [selected], once they were scored.
  const uint32_t* tokens() const { return tokens_; }

 private:
  static constexpr size_t kOutlierPart = 4;
  // Smaller deviations, in nats, do not matter.
  static constexpr float kLeastNats = 0.1f;

  bool IsMass() const { return call_.spec.kind == SearchKind::kMass; }
  // Marks all keys of a block if the codes of one of its keys are too inexact for some row.
  void MarkOutliers(size_t run_idx, size_t first_place);

  const IndexCall& call_;
  SearchCost* const cost_;
  const size_t num_places_;
  float margin_ = 0;
  size_t num_selected_ = 0;
  size_t num_outliers_ = 0;
  std::byte* tables_ = nullptr;  // The lookup tables of one run.
  float* scores_ = nullptr;      // [q row][place]
  uint8_t* outliers_ = nullptr;  // [place]: 1 where the estimate may be off by far.
  float* errors_ = nullptr;      // [q row][run]
  float* norms_ = nullptr;       // [q row]
  uint32_t* places_ = nullptr;
  uint32_t* keys_ = nullptr;  // Selected keys: row numbers in their run.
  uint32_t* tokens_ = nullptr;
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_PQ_PQ_ESTIMATES_H_
