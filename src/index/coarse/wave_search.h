// Internal to coarse: one search of a group's q rows in the clusters of a chain of runs.
//
// Group:   the clusters are ranked once for all rows: a cluster's worth is its share of the softmax
//          over the centroids' scores, added up over rows, as RetroInfer has it. A row that is not
//          finite has no say.
// Keys:    those of the clusters of most worth are scored exactly, as many clusters as hold
//          effort x k visible keys; each row finds its k best of them.
// Numbers: clusters are numbered through those of all runs. One of which no key is visible is worth
//          nothing; hidden keys stay in the mean of others.
// Memory:  the caller's scratch; nothing is allocated.
// Threads: one thread a search.
// Source:  RetroInfer (arXiv:2505.02922), tripartite attention approximation: its retrieval zone.
#ifndef ATTNDB_INDEX_COARSE_WAVE_SEARCH_H_
#define ATTNDB_INDEX_COARSE_WAVE_SEARCH_H_

#include <cstddef>
#include <cstdint>

#include "index/coarse/listed_keys.h"
#include "index/coarse/wave_keys.h"

namespace attndb::index {

class WaveSearch {
 public:
  // All must outlive it. REQUIRES: the runs' indexes are WaveKeys. Null scratch: measures.
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
  void SelectClusters();
  size_t TakeBest(size_t num_selected, size_t num_wanted);
  void ListKeys();

  const IndexCall& call_;
  SearchCost* const cost_;
  SearchScratch scratch_;
  const size_t num_keys_;
  const size_t num_clusters_;
  uint32_t* const counts_;    // [cluster]: its visible keys.
  float* const scores_;       // [q row][cluster]
  float* const worth_;        // [cluster]
  float* const weights_;      // [cluster], of a row.
  uint32_t* const selected_;  // Clusters, ascending in the end.
  size_t num_selected_ = 0;
  ListedKeys listed_;
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_COARSE_WAVE_SEARCH_H_
