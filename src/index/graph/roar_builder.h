// Internal to graph: the build of RoarGraph as published.
//
//   1. Each training query finds the N_q keys with the highest scores, exactly.
//   2. Projection: the best of them, the query's pivot, gets up to M neighbours from among the
//      others. If several queries have one pivot, the last query counts. Neighbours link back.
//   3. Enhancement: each key searches the projected graph for the L keys with the highest scores,
//      starting from the medoid of the keys that the projection linked (other keys may lead
//      nowhere). It gets M neighbours from these, which link back.
//   4. A key's neighbours are those of both steps, at most 2 M.
//
// Neighbours are chosen in the order of their scores with the key. A candidate is passed over if it
// scores higher with a chosen neighbour than with the key. In step 2, candidates that were passed
// over fill up the rest of M. If links back make a list too long, its neighbours are chosen anew.
//
// Errors:  kCancelled, kResourceExhausted.
// Threads: one thread, which calls the pool; the graph does not depend on the number of threads. It
//          may depend on the instruction set, whose sums are rounded in another order.
// Source:  RoarGraph, Chen et al. (VLDB 2024, arXiv:2408.08933), section 4; AlayaDB 7.2 (ii). Keys
//          that are unreachable at the end are linked, because the format requires it. The authors'
//          code links back while other threads read the lists; ours links back when all lists are
//          there.
#ifndef ATTNDB_INDEX_GRAPH_ROAR_BUILDER_H_
#define ATTNDB_INDEX_GRAPH_ROAR_BUILDER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "attndb/result.h"
#include "common/aligned_buffer.h"
#include "index/graph/graph_format.h"
#include "index/graph/graph_nearest.h"
#include "index/graph/graph_source.h"
#include "index/graph/neighbour_pruner.h"

namespace attndb::index {

// Header of a graph of such keys, without its entry point.
GraphHeader RoarHeaderFor(const GraphShape& shape, size_t max_degree);

class RoarBuilder {
 public:
  RoarBuilder(const GraphSource& source, const RoarOptions& options);

  // The bytes of the graph and its header. REQUIRES: at least one key.
  Result<AlignedBuffer> Build(GraphHeader* header);

 private:
  NearestLists FindNearestKeys() const;
  NeighbourLists Project(const NearestLists& nearest) const;
  NeighbourLists Enhance(const NeighbourLists& projected) const;
  void LinkBack(bool fills, NeighbourLists* lists) const;
  uint32_t FindMedoid(const NeighbourLists& projected) const;
  bool Cancelled() const {
    return options_.cancel != nullptr && options_.cancel->load(std::memory_order_relaxed);
  }

  const GraphSource& source_;
  const RoarOptions& options_;
  const size_t num_keys_;
  uint32_t entry_point_ = 0;
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_GRAPH_ROAR_BUILDER_H_
