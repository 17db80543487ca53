#include "index/graph/graph_index.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "common/check.h"
#include "common/checked_math.h"
#include "index/graph/distinct_keys.h"
#include "index/graph/graph_builder.h"
#include "index/graph/roar_builder.h"
#include "index/graph/roar_growth.h"

namespace attndb::index {
namespace {

GraphShape ShapeOf(const GraphSource& source) {
  return {source.num_keys, source.keys.num_elements, source.keys.dtype};
}

Result<bool> HasCopies(const GraphSource& source, const std::atomic<bool>* cancel) {
  ATTNDB_ASSIGN_OR_RETURN(const DistinctKeys distinct, DistinctKeys::Of(source, cancel));
  return !distinct.all_differ();
}

}  // namespace

uint64_t GraphIndex::BytesFor(const GraphShape& shape) {
  return GraphLayout(HeaderFor(shape, GraphOptions().slot_bytes, shape.num_keys)).num_bytes;
}

Result<GraphIndex> GraphIndex::Build(const GraphSource& source, const GraphOptions& options) {
  ATTNDB_ASSIGN_OR_RETURN(DistinctKeys distinct, DistinctKeys::Of(source, options.cancel));
  if (distinct.all_differ()) return Extend(source, {}, options);
  ATTNDB_ASSIGN_OR_RETURN(const GraphSource kinds, distinct.KindSource());
  ATTNDB_ASSIGN_OR_RETURN(const GraphIndex graph, Extend(kinds, {}, options));
  GraphHeader header = HeaderFor(ShapeOf(source), options.slot_bytes, source.num_keys);
  ATTNDB_ASSIGN_OR_RETURN(AlignedBuffer buffer,
                          distinct.Expand(graph.view(), kMaxSlotIds, &header));
  return Own(std::move(buffer), header);
}

Result<GraphIndex> GraphIndex::Extend(const GraphSource& source, std::span<const GraphRun> priors,
                                      const GraphOptions& options) {
  ATTNDB_CHECK(options.slot_bytes % 8 == 0 && options.slot_bytes >= 16 && options.slot_bytes <= 64);
  ATTNDB_CHECK(options.keys_per_query > 0);
  if (source.num_keys == 0) return GraphIndex();
  std::vector<PriorGraph> graphs;
  for (const GraphRun& run : priors) {
    if (run.graph->view().header.num_keys == 0) continue;
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

Result<GraphIndex> GraphIndex::Grow(const GraphSource& source, const GraphIndex& prior,
                                    const GraphOptions& options) {
  const size_t num_old = prior.view().header.num_keys;
  ATTNDB_CHECK(num_old > 0 && num_old < source.num_keys);
  const GraphSource added = WithQueriesFrom(source, num_old);
  // Without q of the new tokens a graph knows nothing of their keys.
  if (added.queries.num_rows() == 0) return Build(source, options);
  ATTNDB_ASSIGN_OR_RETURN(const bool has_copies, HasCopies(source, options.cancel));
  if (has_copies) return Build(source, options);
  const GraphRun run = {&prior, 0};
  return Extend(added, {&run, 1}, options);
}

uint64_t GraphIndex::BytesForRoar(const GraphShape& shape, size_t max_degree) {
  return GraphLayout(RoarHeaderFor(shape, max_degree)).num_bytes;
}

Result<GraphIndex> GraphIndex::BuildRoar(const GraphSource& source, const RoarOptions& options) {
  ATTNDB_CHECK(options.max_degree > 0 && options.max_degree <= kMaxRoarDegree);
  ATTNDB_CHECK(options.keys_per_query > 0 && options.search_window > 0);
  if (source.num_keys == 0) return GraphIndex();
  ATTNDB_ASSIGN_OR_RETURN(DistinctKeys distinct, DistinctKeys::Of(source, options.cancel));
  GraphHeader header;
  if (distinct.all_differ()) {
    ATTNDB_ASSIGN_OR_RETURN(AlignedBuffer buffer, RoarBuilder(source, options).Build(&header));
    return Own(std::move(buffer), header);
  }
  ATTNDB_ASSIGN_OR_RETURN(const GraphSource kinds, distinct.KindSource());
  ATTNDB_ASSIGN_OR_RETURN(const GraphIndex graph, BuildRoar(kinds, options));
  header = RoarHeaderFor(ShapeOf(source), options.max_degree);
  ATTNDB_ASSIGN_OR_RETURN(AlignedBuffer buffer,
                          distinct.Expand(graph.view(), 2 * options.max_degree, &header));
  return Own(std::move(buffer), header);
}

Result<GraphIndex> GraphIndex::GrowRoar(const GraphSource& source, const GraphIndex& prior,
                                        const RoarOptions& options) {
  const GraphView& view = prior.view();
  ATTNDB_CHECK(options.max_degree > 0 && options.max_degree <= kMaxRoarDegree);
  ATTNDB_CHECK(options.keys_per_query > 0 && options.search_window > 0);
  ATTNDB_CHECK(view.header.num_keys > 0 && view.header.num_keys < source.num_keys);
  ATTNDB_CHECK(view.header.num_elements == source.keys.num_elements);
  ATTNDB_CHECK(view.header.dtype == source.keys.dtype);
  ATTNDB_ASSIGN_OR_RETURN(const bool has_copies, HasCopies(source, options.cancel));
  if (has_copies) return BuildRoar(source, options);
  GraphHeader header;
  ATTNDB_ASSIGN_OR_RETURN(AlignedBuffer buffer, RoarGrower(source, view, options).Grow(&header));
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

// The run's part of a call, of the graph's keys; none visible: nothing to do.
WalkCall GraphIndex::PartOf(const IndexCall& call, const IndexRun& run, const float* best) {
  const auto& graph = static_cast<const GraphIndex&>(*run.index);
  ATTNDB_CHECK(run.num_visible <= graph.num_keys());
  const auto number = [&](size_t key) { return key - std::min(key, graph.first_key_); };
  return {.spec = call.spec,
          .keys = run.keys,
          .rows = call.rows,
          .strip = run.strip,
          .first_key = graph.first_key_,
          .first_visible = number(std::min(run.first_visible, run.num_visible)),
          .num_visible = number(run.num_visible),
          .q = call.q,
          .q_stride = call.q_stride,
          .num_q_rows = call.num_q_rows,
          .best = best};
}

size_t GraphIndex::ScratchBytes(const IndexCall& call) const {
  size_t bytes = 0;
  for (const IndexRun& run : call.runs) {
    const auto& graph = static_cast<const GraphIndex&>(*run.index);
    const WalkCall part = PartOf(call, run, nullptr);
    bytes = std::max(bytes, WalkScratchBytes(graph.view_, part));
  }
  return StateBytes(call) + bytes;
}

// State of all runs for the q rows: the best score so far, and the result of the current run.
size_t GraphIndex::StateBytes(const IndexCall& call) {
  return RoundUp(call.num_q_rows * (sizeof(FoundKeys) + sizeof(float)), kGraphAlignment);
}

// Searches run by run: the result of one run raises the best score that the next range counts from.
Status GraphIndex::Search(const IndexCall& call, void* scratch, FoundKeys* found,
                          SearchCost* cost) const {
  auto* const parts = static_cast<FoundKeys*>(scratch);
  auto* const best = reinterpret_cast<float*>(parts + call.num_q_rows);
  std::byte* const rest = static_cast<std::byte*>(scratch) + StateBytes(call);
  for (size_t r = 0; r < call.num_q_rows; ++r) {
    found[r].count = 0;
    best[r] = call.best == nullptr ? -std::numeric_limits<float>::infinity() : call.best[r];
  }
  for (const IndexRun& run : call.runs) {
    const auto& graph = static_cast<const GraphIndex&>(*run.index);
    const WalkCall part = PartOf(call, run, best);
    if (part.num_visible == part.first_visible) continue;
    for (size_t r = 0; r < call.num_q_rows; ++r) {
      parts[r] = {found[r].tokens + found[r].count, found[r].scores + found[r].count, 0};
    }
    ATTNDB_RETURN_IF_ERROR(WalkGraph(graph.view_, part, rest, parts, cost));
    for (size_t r = 0; r < call.num_q_rows; ++r) graph.Take(run, parts[r], &found[r], &best[r]);
  }
  return Status::Ok();
}

// Keys become tokens.
void GraphIndex::Take(const IndexRun& run, const FoundKeys& part, FoundKeys* found,
                      float* best) const {
  for (size_t i = 0; i < part.count; ++i) {
    part.tokens[i] += run.first_token + static_cast<uint32_t>(first_key_);
    *best = std::max(*best, part.scores[i]);
  }
  found->count += part.count;
}

}  // namespace attndb::index
