// Internal to graph: the build of RoarGraph as it was published.
//
//   1. Each training query finds the N_q keys that score highest, exactly.
//   2. Projection: the best of them, the query's pivot, gets up to M neighbours from among the
//      others. If several queries have one pivot, the last query counts. Neighbours link back.
//   3. Enhancement: each key searches the projected graph for the L keys that score highest with
//      it, starting from the medoid of the keys that the projection linked (other keys may lead
//      nowhere), and gets M neighbours from these, which link back.
//   4. A key's neighbours are those of both steps, 2 M at most.
//
// Neighbours are chosen in the order of their scores with the key; a candidate that scores higher
// with a chosen neighbour than with the key is passed over. In step 2 candidates that were passed
// over fill up the rest of M. Lists that become too long because others link back are chosen anew.
//
// Errors:  kCancelled, kResourceExhausted.
// Threads: one thread, which calls the pool; the graph does not depend on the number of threads.
//          It may depend on the instruction set, whose sums are rounded in another order.
// Source:  RoarGraph, Chen et al. (VLDB 2024, arXiv:2408.08933), section 4; AlayaDB 7.2 (ii). Keys
//          that cannot be reached in the end are linked, as the format demands; the authors' code
//          links back while others read the lists, ours when all lists are there.
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
