// Internal to clustered: one search, for a group's q rows, in the clusters of a chain of runs.
//
// Rounds:  first scans the clusters that look best for each q row, over all runs. Their scores set
//          the limit of a useful score. Then scans every cluster that may reach this limit for some
//          row. The codes' estimates give candidates, the union over all rows. These are scored
//          exactly for all rows at once: a row of K serves the whole group.
// Numbers: clusters are numbered through all runs. A slot is a visited cluster, in the order of
//          visits; a place is one of a slot's keys.
// Memory:  the caller's scratch; nothing is allocated.
// Threads: one thread per search.
#ifndef ATTNDB_INDEX_CLUSTERED_CLUSTER_SEARCH_H_
#define ATTNDB_INDEX_CLUSTERED_CLUSTER_SEARCH_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "index/clustered/clustered_keys.h"

namespace attndb::index {

class ClusterSearch {
 public:
  static size_t ScratchBytes(const IndexCall& call);

  // All arguments must outlive it. REQUIRES: the runs' indexes are ClusteredKeys; scratch has
  // ScratchBytes.
  ClusterSearch(const IndexCall& call, void* scratch, SearchCost* cost);

  Status Run(FoundKeys* found);

 private:
  static constexpr size_t kClusterKeys = 64;

  // The scratch, in the order in which it is cut up.
  struct Scratch {
    // [run]: number of its first cluster; at the end, the number of all clusters.
    size_t* first_clusters = nullptr;
    float* spare = nullptr;            // [channels]
    std::byte* codes = nullptr;        // [q row][QueryCodeBytes]
    EstimateQuery* queries = nullptr;  // [q row], prepared once for all runs.
    float* norms = nullptr;            // [q row]
    float* means = nullptr;            // [q row][cluster]
    float* bounds = nullptr;           // [q row][cluster]
    float* offsets = nullptr;          // [q row][cluster], during a scan.
    float* floors = nullptr;           // [q row]: smallest score that is worth finding.
    float* margins = nullptr;          // [q row]: how far estimates may be off.
    uint32_t* clusters = nullptr;      // [slot], ascending in each of the two rounds.
    uint32_t* order = nullptr;         // Slots, sorted by their clusters' numbers.
    uint64_t* marked = nullptr;        // A bit for each cluster that is to be scanned.
    uint64_t* visited = nullptr;       // A bit for each cluster that was scanned, or need not be.
    float* scores = nullptr;           // [q row][place]
    uint32_t* selected = nullptr;      // Output of a selection.
    float* near = nullptr;             // Scores near a row's floor.
    uint64_t* candidates = nullptr;    // A bit for each place.
    uint32_t* keys = nullptr;          // Candidates as keys, by run.
    uint32_t* tokens = nullptr;        // Candidates as tokens.
    float* exact = nullptr;            // [q row][candidate]
    void* select = nullptr;            // Scratch of kernels::SelectTopK.
  };
  template <typename Take>
  static Scratch Lay(const IndexCall& call, const Take& take);

  const ClusteredKeys& KeysOf(size_t run) const {
    return static_cast<const ClusteredKeys&>(*call_.runs[run].index);
  }
  size_t num_rows() const { return call_.num_q_rows; }
  size_t num_channels() const { return call_.num_channels(); }
  size_t num_places() const { return num_visited_ * kClusterKeys; }
  std::span<const EstimateQuery> queries() const { return {scratch_.queries, num_rows()}; }
  // Calls f(run, first, end) for the slots of each run in [begin, end), whose clusters ascend.
  template <typename F>
  void ForEachRun(const uint32_t* clusters, size_t begin, size_t end, const F& f) const;

  void NumberClusters();
  void PrepareQueries();
  void FindBounds();
  void MarkAbove(size_t row, float bound);
  void MarkBest();
  void MarkPromising();
  bool IsWhole(size_t run, size_t first_key) const;
  enum class Sight : uint8_t { kAll, kSome, kNone };
  Sight SightOf(size_t run, size_t first_key) const;
  // Indices [first, first + count) of keys in their piece.
  struct NumberRange {
    uint16_t first = 0;
    uint16_t count = 0;
    bool Has(uint16_t number) const { return static_cast<uint16_t>(number - first) < count; }
  };
  NumberRange VisibleNumbers(size_t run, size_t first_key) const;
  void ScanMarked();
  void ScanRun(size_t run, size_t first, size_t end);
  void Hide(size_t run, size_t slot);
  float Floor(size_t row, const float* scores, size_t count);
  void FindFloors();
  void MarkCandidates(size_t row);
  void OrderSlots();
  void TakeCandidates();
  Status ScoreCandidates();
  void FetchAhead(const storage::ListedRows& rows, size_t count) const;
  void Choose(FoundKeys* found);

  const IndexCall& call_;
  SearchCost* const cost_;
  const float effort_;
  size_t num_clusters_ = 0;
  size_t stride_ = 0;  // Elements between two q rows' scores.
  Scratch scratch_;
  size_t num_visited_ = 0;
  size_t num_first_ = 0;  // Clusters visited in the first round.
  size_t num_candidates_ = 0;
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_CLUSTERED_CLUSTER_SEARCH_H_
