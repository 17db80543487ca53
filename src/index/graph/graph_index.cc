#include "index/graph/graph_index.h"

#include <utility>
#include <vector>

#include "common/check.h"
#include "index/graph/graph_builder.h"

namespace attndb::index {

Result<GraphIndex> GraphIndex::Build(const GraphSource& source, const GraphOptions& options) {
  return Extend(source, {}, options);
}

Result<GraphIndex> GraphIndex::Extend(const GraphSource& source, std::span<const GraphRun> priors,
                                      const GraphOptions& options) {
  ATTNDB_CHECK(options.slot_bytes % 8 == 0 && options.slot_bytes >= 16 && options.slot_bytes <= 64);
  ATTNDB_CHECK(options.keys_per_query > 0);
  if (source.num_keys == 0) return GraphIndex();
  std::vector<PriorGraph> graphs;
  for (const GraphRun& run : priors) {
    if (run.graph->num_keys() == 0) continue;
    const GraphHeader& prior = run.graph->view().header;
    ATTNDB_CHECK(prior.num_elements == source.keys.num_elements);
    ATTNDB_CHECK(prior.dtype == source.keys.dtype);
    ATTNDB_CHECK(run.first_key + prior.num_keys <= source.num_keys);
    graphs.push_back({run.graph->view(), run.first_key});
  }
  GraphHeader header;
  ATTNDB_ASSIGN_OR_RETURN(AlignedBuffer buffer,
                          GraphBuilder(source, graphs, options).Build(&header));
  return Own(std::move(buffer), header);
}

Result<GraphIndex> GraphIndex::Parse(std::span<const std::byte> bytes, const GraphShape& expected,
                                     std::string_view object) {
  GraphIndex graph;
  ATTNDB_ASSIGN_OR_RETURN(graph.view_, ParseGraph(bytes, expected, object));
  graph.bytes_ = bytes;
  return graph;
}

GraphIndex GraphIndex::Own(AlignedBuffer buffer, const GraphHeader& header) {
  GraphIndex graph;
  graph.bytes_ = buffer.span();
  graph.view_ = ViewGraph(header, graph.bytes_);
  graph.buffer_ = std::move(buffer);
  return graph;
}

size_t GraphIndex::ScratchBytes(const IndexCall& call) const {
  return WalkScratchBytes(view_, call, range_walk_);
}

void GraphIndex::Search(const IndexCall& call, void* scratch, FoundKeys* found,
                        SearchCost* cost) const {
  ATTNDB_CHECK(call.num_visible <= num_keys());
  for (size_t r = 0; r < call.num_q_rows; ++r) found[r].count = 0;
  if (call.num_visible == 0 || call.num_q_rows == 0) return;
  WalkGraph(view_, call, range_walk_, scratch, found, cost);
}

}  // namespace attndb::index
