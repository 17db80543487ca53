// Graphs of the q heads of a group over the keys of their kv head. Each graph is trained by the
// sampled queries of its q head only, and searched for that q head only.
//
// Shapes:  as index/key_index.h; row r of a call belongs to q head r of the group, so a call has as
//          many rows as there are graphs.
// Effort:  as in graph_index.h, for each q head.
// Errors:  Build: those of the graphs; kResourceExhausted: no memory. Parse: kCorruption, or
//          kUnsupported for another version, naming object, graph, field, expected and found.
// Threads: as graph_index.h.
// Source:  RetrievalAttention, Appendix C: one index per q head. AlayaDB 7.2 shares one index among
//          the group, as GraphIndex does.
#ifndef ATTNDB_INDEX_GRAPH_HEAD_GRAPHS_H_
#define ATTNDB_INDEX_GRAPH_HEAD_GRAPHS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "attndb/result.h"
#include "common/aligned_buffer.h"
#include "index/graph/graph_format.h"
#include "index/graph/graph_index.h"
#include "index/graph/graph_source.h"
#include "index/key_index.h"

namespace attndb::index {

class HeadGraphs final : public KeyIndex {
 public:
  // Builds a graph of all keys of the source, trained by its q_head.
  using BuildGraph = std::function<Result<GraphIndex>(const GraphSource&)>;

  static constexpr std::string_view kMagic = "attngrhd";
  static constexpr uint32_t kVersion = 1;

  // Bytes that num_graphs graphs of at most graph_bytes each take.
  static uint64_t BytesFor(uint64_t graph_bytes, uint32_t num_graphs);

  // Trains graph g with the queries of q head g; without any, keys train it. REQUIRES: at least one
  // graph and one key; the source's q_head is not set.
  static Result<HeadGraphs> Build(const GraphSource& source, uint32_t num_graphs,
                                  const BuildGraph& build);

  // Takes graphs that were written before; `bytes` lie at a multiple of kGraphAlignment, are used
  // in place and must outlive the result. They may hold anything. `object` names them in errors.
  static Result<HeadGraphs> Parse(std::span<const std::byte> bytes, const GraphShape& expected,
                                  uint32_t num_graphs, std::string_view object);

  // The bytes that Parse reads, as long as this lives.
  std::span<const std::byte> bytes() const { return bytes_; }
  std::span<const GraphIndex> graphs() const { return graphs_; }

  // See GraphIndex.
  void set_first_key(size_t first_key);

  size_t first_key() const override { return graphs_[0].first_key(); }
  size_t num_keys() const override { return graphs_[0].num_keys(); }
  uint64_t memory_bytes() const override { return bytes_.size(); }
  size_t ScratchBytes(const IndexCall& call) const override;
  // REQUIRES: as many q rows as graphs, here and in the call's other runs.
  Status Search(const IndexCall& call, void* scratch, FoundKeys* found,
                SearchCost* cost) const override;

 private:
  static IndexRun RunOf(const IndexRun& run, size_t head);

  AlignedBuffer buffer_;  // Holds the bytes, if they were made here.
  std::span<const std::byte> bytes_;
  std::vector<GraphIndex> graphs_;  // [q head of the group]
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_GRAPH_HEAD_GRAPHS_H_
