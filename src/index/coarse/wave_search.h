// Internal to coarse: one search, for a group's q rows, in the clusters of a chain of runs.
//
// Group:   clusters are ranked once for all rows: a cluster's worth is its share of the softmax
//          over the centroids' scores, summed over rows, as in RetroInfer. A non-finite row does
//          not count. If a row's best clusters are passed over, the row gets its share of the
//          clusters first (fair_share.h).
// Keys:    the clusters of most worth are taken until they hold effort x k visible keys. These keys
//          are scored exactly, and each row finds the k best of them.
// Numbers: clusters are numbered through all runs. A cluster without a visible key is worth
//          nothing; hidden keys stay part of the means of other clusters.
// Memory:  the caller's scratch; nothing is allocated.
// Threads: one thread a search.
// Source:  RetroInfer (arXiv:2505.02922), tripartite attention approximation: its retrieval zone.
#ifndef ATTNDB_INDEX_COARSE_WAVE_SEARCH_H_
#define ATTNDB_INDEX_COARSE_WAVE_SEARCH_H_

#include <cstddef>
#include <cstdint>

#include "index/coarse/listed_keys.h"
#include "index/coarse/wave_keys.h"
#include "index/fair_share.h"

namespace attndb::index {

class WaveSearch {
 public:
  // All arguments must outlive it. REQUIRES: the runs' indexes are WaveKeys. Null scratch: only
  // measures scratch_bytes().
  WaveSearch(const IndexCall& call, void* scratch, SearchCost* cost);

  size_t scratch_bytes() const { return scratch_.num_bytes(); }

  Status Run(FoundKeys* found);

 private:
  static const ClusterSums& SumsOf(const IndexRun& run) {
    return static_cast<const WaveKeys&>(*run.index).sums();
  }
  static size_t CountClusters(const IndexCall& call);

  void CountVisible();
  void ScoreClusters();
  void Rate();
  void SelectByWorth();
  void SelectClusters();
  size_t TakeBest(size_t num_selected, size_t num_wanted);
  void ListKeys();

  const IndexCall& call_;
  SearchCost* const cost_;
  SearchScratch scratch_;
  const size_t num_keys_;
  const size_t num_clusters_;
  uint32_t* const counts_;    // [cluster]: number of its visible keys.
  float* const scores_;       // [q row][cluster]
  float* const worth_;        // [cluster]
  float* const weights_;      // [cluster], of one row at a time.
  uint32_t* const selected_;  // Clusters, ascending in the end.
  size_t num_selected_ = 0;
  FairShare fair_;
  ListedKeys listed_;
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_COARSE_WAVE_SEARCH_H_
