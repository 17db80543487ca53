// Internal to graph: the build of a graph from training queries.
//
// Phases:  each runs over its parts in parallel, and a part writes only its own keys. Additions to
//          the list of another key are applied afterwards, in the order of keys. So the graph
//          depends only on the source and the options, not on threads.
// Errors:  kCancelled, kResourceExhausted.
// Threads: one thread, which calls the pool.
#ifndef ATTNDB_INDEX_GRAPH_GRAPH_BUILDER_H_
#define ATTNDB_INDEX_GRAPH_GRAPH_BUILDER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "attndb/result.h"
#include "common/aligned_buffer.h"
#include "index/graph/graph_codes.h"
#include "index/graph/graph_format.h"
#include "index/graph/graph_nearest.h"
#include "index/graph/graph_source.h"
#include "index/graph/neighbour_table.h"

namespace attndb::index {

// An existing graph of some keys of the new graph: those from first_key on.
struct PriorGraph {
  GraphView graph;
  size_t first_key = 0;
};

// Header of a graph of such keys and num_queries training queries, without its entry point.
GraphHeader HeaderFor(const GraphShape& shape, size_t slot_bytes, size_t num_queries);

struct LinkWork;

class GraphBuilder {
 public:
  // `priors`: graphs of some of these keys.
  GraphBuilder(const GraphSource& source, std::span<const PriorGraph> priors,
               const GraphOptions& options);

  // The bytes of the graph and its header. REQUIRES: at least one key.
  Result<AlignedBuffer> Build(GraphHeader* header);

 private:
  // A training query: a row of the source's queries, a router of a prior graph or, where there is
  // neither, a key; and how many of the first keys it may find.
  struct Query {
    const std::byte* row;
    size_t limit;
  };
  size_t Limit(size_t row, size_t rank) const;
  void ChooseQueries();
  void FindLists();
  void CopyPriors();
  void LinkKey(uint32_t key, std::span<const uint32_t> lists, LinkWork* work);
  void LinkCovered();
  void LinkOthers();
  void AddReverse(const std::vector<uint32_t>& others);
  Result<AlignedBuffer> Pack(GraphHeader* header) const;
  void PackRouters(const GraphHeader& header, std::byte* bytes) const;
  bool Cancelled() const {
    return options_.cancel != nullptr && options_.cancel->load(std::memory_order_relaxed);
  }

  const GraphSource& source_;
  const std::span<const PriorGraph> priors_;
  const GraphOptions& options_;
  const size_t num_keys_;
  TurnedKeys turned_;
  KeyCodes codes_;
  std::vector<Query> queries_;
  NearestLists nearest_;  // Keys that the queries found.
  uint32_t entry_point_ = 0;
  NeighbourTable table_;
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_GRAPH_GRAPH_BUILDER_H_
