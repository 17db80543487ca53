// Internal to clustered: one search of a group's q rows.
//
// Rounds:  the clusters that look best for each q row are scanned first; what they hold says what
//          is worth looking for, and every cluster that may hold as much for some row is scanned
//          then. The codes' estimates bring up candidates, the union of all rows, which are scored
//          exactly for all rows at once: a row of K serves the whole group.
// Memory:  the caller's scratch; nothing is allocated.
// Threads: one thread a search.
#ifndef ATTNDB_INDEX_CLUSTERED_CLUSTER_SEARCH_H_
#define ATTNDB_INDEX_CLUSTERED_CLUSTER_SEARCH_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "index/clustered/clustered_keys.h"

namespace attndb::index {

class ClusterSearch {
 public:
  static size_t ScratchBytes(const ClusteredKeys& keys, const IndexCall& call);

  // All must outlive it. REQUIRES: scratch has so many bytes.
  ClusterSearch(const ClusteredKeys& keys, const IndexCall& call, void* scratch, SearchCost* cost);

  void Run(FoundKeys* found);

 private:
  // Memory, in the order in which it is taken.
  struct Scratch {
    float* spare = nullptr;            // [q row][channels]
    std::byte* codes = nullptr;        // [q row][QueryCodeBytes]
    EstimateQuery* queries = nullptr;  // [q row]
    float* means = nullptr;            // [q row][cluster]
    float* bounds = nullptr;           // [q row][cluster]
    float* offsets = nullptr;          // [q row][cluster], of a scan.
    float* floors = nullptr;           // [q row]: what is worth looking for.
    uint32_t* clusters = nullptr;      // Visited, in the order of visits.
    uint64_t* marks = nullptr;         // A bit for each cluster that is, or is about to be.
    float* scores = nullptr;           // [q row][place of a visited cluster]
    uint32_t* selected = nullptr;      // What a selection gives.
    uint32_t* near = nullptr;          // Places that come near a row's floor.
    uint64_t* candidates = nullptr;    // A bit for each place of a visited cluster.
    uint32_t* places = nullptr;        // Of candidates, as keys.
    float* exact = nullptr;            // [q row][candidate]
    void* select = nullptr;            // Of kernels::SelectTopK.
  };
  template <typename Take>
  static Scratch Lay(const ClusteredKeys& keys, const IndexCall& call, const Take& take);

  size_t num_rows() const { return call_.num_q_rows; }
  size_t channels() const { return call_.keys.num_elements; }
  size_t num_places() const { return num_visited_ * kClusterKeys; }
  static constexpr size_t kClusterKeys = 64;

  void Prepare();
  void MarkFirst();
  void MarkAbove();
  void Mark(uint32_t cluster);
  bool IsWhole(uint32_t cluster) const;
  bool IsVisible(uint32_t cluster) const;
  void ScanMarked();
  void HideOthers(size_t first);
  void FindFloors();
  float KthLargest(const float* scores, size_t count);
  float Floor(size_t row);
  void MarkCandidates(size_t row);
  float Margin(size_t row) const;
  size_t TakeCandidates();
  void Choose(size_t num_candidates, FoundKeys* found);

  const ClusteredKeys& keys_;
  const IndexCall& call_;
  SearchCost* const cost_;
  const size_t num_clusters_;  // Of pieces with visible keys.
  const size_t stride_;        // Of scores.
  Scratch scratch_;
  size_t num_marked_ = 0;
  size_t num_visited_ = 0;
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_CLUSTERED_CLUSTER_SEARCH_H_
