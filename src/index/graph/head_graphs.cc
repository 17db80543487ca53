#include "index/graph/head_graphs.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/check.h"
#include "common/checked_math.h"
#include "common/coding.h"
#include "storage/vfs/field_check.h"

namespace attndb::index {
namespace {

using storage::ExpectEqual;

// Magic, version, number of graphs and the bytes of each, padded.
uint64_t HeaderBytes(uint32_t num_graphs) {
  return RoundUp(HeadGraphs::kMagic.size() + 8 + uint64_t{num_graphs} * 8, kGraphAlignment);
}

std::vector<std::byte> EncodeHeader(std::span<const GraphIndex> graphs) {
  const auto num_graphs = static_cast<uint32_t>(graphs.size());
  ByteWriter out;
  out.Bytes(BytesOf(HeadGraphs::kMagic));
  out.U32(HeadGraphs::kVersion);
  out.U32(num_graphs);
  for (const GraphIndex& graph : graphs) out.U64(graph.bytes().size());
  out.PadTo(HeaderBytes(num_graphs));
  return out.Release();
}

// The bytes of each graph.
Result<std::vector<std::span<const std::byte>>> Split(std::span<const std::byte> bytes,
                                                      uint32_t num_graphs,
                                                      std::string_view object) {
  ByteReader in(bytes, object);
  ATTNDB_RETURN_IF_ERROR(
      storage::CheckMagicAndVersion(&in, object, HeadGraphs::kMagic, HeadGraphs::kVersion));
  const uint32_t found = in.U32("num_graphs");
  ATTNDB_RETURN_IF_ERROR(in.status());
  ATTNDB_RETURN_IF_ERROR(ExpectEqual(object, "num_graphs", found, num_graphs));
  std::vector<std::span<const std::byte>> parts;
  uint64_t at = HeaderBytes(num_graphs);
  for (uint32_t g = 0; g < num_graphs; ++g) {
    const std::string field = "graph_bytes[" + std::to_string(g) + "]";
    const uint64_t length = in.U64(field);
    ATTNDB_RETURN_IF_ERROR(in.status());
    const uint64_t rest = bytes.size() - std::min<uint64_t>(at, bytes.size());
    ATTNDB_RETURN_IF_ERROR(storage::ExpectAtMost(object, field, length, rest));
    ATTNDB_RETURN_IF_ERROR(ExpectEqual(object, field + " modulo 64", length % kGraphAlignment, 0));
    parts.push_back(bytes.subspan(at, length));
    at += length;
  }
  ATTNDB_RETURN_IF_ERROR(storage::ReadZeros(&in, object, HeaderBytes(num_graphs)));
  ATTNDB_RETURN_IF_ERROR(ExpectEqual(object, "length", bytes.size(), at));
  return parts;
}

// Bytes that a call's runs take when they are listed for one q head.
size_t RunBytes(const IndexCall& call) {
  return RoundUp(call.runs.size() * sizeof(IndexRun), kGraphAlignment);
}

}  // namespace

uint64_t HeadGraphs::BytesFor(uint64_t graph_bytes, uint32_t num_graphs) {
  return HeaderBytes(num_graphs) + num_graphs * RoundUp(graph_bytes, kGraphAlignment);
}

Result<HeadGraphs> HeadGraphs::Build(const GraphSource& source, uint32_t num_graphs,
                                     const BuildGraph& build) {
  ATTNDB_CHECK(num_graphs > 0 && source.num_keys > 0 && !source.q_head.has_value());
  std::vector<GraphIndex> built;
  size_t num_bytes = HeaderBytes(num_graphs);
  for (uint32_t g = 0; g < num_graphs; ++g) {
    GraphSource of_head = source;
    of_head.q_head = g;
    ATTNDB_ASSIGN_OR_RETURN(GraphIndex graph, build(of_head));
    num_bytes += graph.bytes().size();
    built.push_back(std::move(graph));
  }
  ATTNDB_ASSIGN_OR_RETURN(AlignedBuffer buffer, AlignedBuffer::Allocate(num_bytes));
  std::byte* end = std::ranges::copy(EncodeHeader(built), buffer.data()).out;
  for (const GraphIndex& graph : built) end = std::ranges::copy(graph.bytes(), end).out;
  built.clear();
  const GraphShape shape = {source.num_keys, source.keys.num_elements, source.keys.dtype};
  ATTNDB_ASSIGN_OR_RETURN(HeadGraphs graphs,
                          Parse(buffer.span(), shape, num_graphs, "graphs that were just built"));
  graphs.buffer_ = std::move(buffer);
  return graphs;
}

Result<HeadGraphs> HeadGraphs::Parse(std::span<const std::byte> bytes, const GraphShape& expected,
                                     uint32_t num_graphs, std::string_view object) {
  ATTNDB_CHECK(num_graphs > 0);
  ATTNDB_ASSIGN_OR_RETURN(const auto parts, Split(bytes, num_graphs, object));
  HeadGraphs graphs;
  graphs.bytes_ = bytes;
  for (uint32_t g = 0; g < num_graphs; ++g) {
    ATTNDB_ASSIGN_OR_RETURN(
        GraphIndex graph,
        GraphIndex::Parse(parts[g], expected,
                          std::string(object) + ", graph of q head " + std::to_string(g)));
    graphs.graphs_.push_back(std::move(graph));
  }
  return graphs;
}

void HeadGraphs::set_first_key(size_t first_key) {
  for (GraphIndex& graph : graphs_) graph.set_first_key(first_key);
}

// A run in the graph of a q head of the group.
IndexRun HeadGraphs::RunOf(const IndexRun& run, size_t head) {
  IndexRun of_head = run;
  of_head.index = &static_cast<const HeadGraphs&>(*run.index).graphs_[head];
  return of_head;
}

size_t HeadGraphs::ScratchBytes(const IndexCall& call) const {
  IndexCall one = call;
  one.num_q_rows = 1;
  size_t bytes = 0;  // Bytes for one run and one q head: these are searched one after the other.
  for (const IndexRun& run : call.runs) {
    for (size_t head = 0; head < graphs_.size(); ++head) {
      const IndexRun of_head = RunOf(run, head);
      one.runs = {&of_head, 1};
      bytes = std::max(bytes, graphs_[head].ScratchBytes(one));
    }
  }
  return RunBytes(call) + bytes;
}

Status HeadGraphs::Search(const IndexCall& call, void* scratch, FoundKeys* found,
                          SearchCost* cost) const {
  for (const IndexRun& run : call.runs) {
    ATTNDB_CHECK(static_cast<const HeadGraphs&>(*run.index).graphs_.size() == call.num_q_rows);
  }
  auto* const runs = static_cast<IndexRun*>(scratch);
  std::byte* const rest = static_cast<std::byte*>(scratch) + RunBytes(call);
  IndexCall one = call;
  one.runs = {runs, call.runs.size()};
  one.num_q_rows = 1;
  for (size_t head = 0; head < graphs_.size(); ++head) {
    for (size_t i = 0; i < call.runs.size(); ++i) runs[i] = RunOf(call.runs[i], head);
    one.q = call.q + head * call.q_stride;
    if (call.best != nullptr) one.best = call.best + head;
    ATTNDB_RETURN_IF_ERROR(graphs_[head].Search(one, rest, &found[head], cost));
  }
  return Status::Ok();
}

}  // namespace attndb::index
