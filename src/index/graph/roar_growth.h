// Internal to graph: inserts keys into a RoarGraph, after the keys that it has.
//
//   1. A new key finds the training query of the old keys that scores highest with it.
//   2. It gets M neighbours from among the N_q old keys that score highest with that query. A graph
//      does not keep these lists, which take 400 bytes a query with N_q = 100. They are found anew,
//      for each query that some new key finds. They never hold new keys.
//   3. The neighbours link back. Lists that become longer than 2 M are chosen anew.
//
// Errors:  kCancelled, kResourceExhausted.
// Threads: one thread, which calls the pool; the graph does not depend on the number of threads. It
//          may depend on the instruction set, as that of a build.
// Source:  RetrievalAttention, Appendix C, after the updates of RoarGraph, Chen et al. (VLDB 2024,
//          arXiv:2408.08933). We take "closest" as largest inner product; queries scaled to norm 1
//          give the same recall. Keys that are unreachable at the end are linked, because the
//          format requires it.
#ifndef ATTNDB_INDEX_GRAPH_ROAR_GROWTH_H_
#define ATTNDB_INDEX_GRAPH_ROAR_GROWTH_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "attndb/result.h"
#include "common/aligned_buffer.h"
#include "index/graph/graph_format.h"
#include "index/graph/graph_nearest.h"
#include "index/graph/graph_source.h"
#include "index/graph/neighbour_pruner.h"

namespace attndb::index {

class RoarGrower {
 public:
  // `prior`: a graph of the source's first keys, but not of all.
  RoarGrower(const GraphSource& source, const GraphView& prior, const RoarOptions& options);

  // The bytes of the graph and its header.
  Result<AlignedBuffer> Grow(GraphHeader* header);

 private:
  // Training queries of the old keys, as float32 [num, num_elements].
  struct Queries {
    AlignedBuffer rows;
    size_t num = 0;
  };
  Result<Queries> LoadQueries() const;
  // For each new key, the query that scores highest with it.
  std::vector<uint32_t> FindClosest(const Queries& queries) const;
  // For each of these queries, the old keys that score highest with it.
  NearestLists FindNearestKeys(const Queries& queries, const std::vector<uint32_t>& which) const;
  void CopyPrior();
  void Insert(const Queries& queries);
  void LinkBack();
  bool Cancelled() const {
    return options_.cancel != nullptr && options_.cancel->load(std::memory_order_relaxed);
  }

  const GraphSource& source_;
  const GraphView& prior_;
  const RoarOptions& options_;
  const size_t num_old_;
  const size_t num_keys_;
  NeighbourLists lists_;
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_GRAPH_ROAR_GROWTH_H_
