// A proximity graph over the keys of one kv head, shared by the q heads of its group: a search
// walks from key to key towards those of largest score, and reads a few percent of K.
//
// Shapes:  as index/key_index.h; keys are the middle of a run: the caller leaves out sinks and
//          window.
// Effort:  for top-k: the search window, the number of keys that are kept and followed for each q
//          row (0: three times k). For a range: the number of each q row's out-of-range keys that
//          are followed nevertheless (0: 192). A range in list order has list_threshold instead.
// Errors:  Build, Extend, Merge: kCancelled; kResourceExhausted: no memory. Parse: those of
//          graph_format.h.
// Threads: constant after construction; concurrent calls must not share scratch or outputs.
// Source:  RoarGraph, Chen et al. (VLDB 2024, arXiv:2408.08933); DIPRS, AlayaDB 6.1. Ours differs:
//          every list with a key gives it neighbours, not only the last one; distances among keys
//          obey the triangle inequality; a walk serves all q heads of a group, and starts at the
//          keys of the training queries nearest to q (docs/formats/graph.md, graph_builder.h).
#ifndef ATTNDB_INDEX_GRAPH_GRAPH_INDEX_H_
#define ATTNDB_INDEX_GRAPH_GRAPH_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "attndb/result.h"
#include "common/aligned_buffer.h"
#include "index/graph/graph_format.h"
#include "index/graph/graph_source.h"
#include "index/graph/graph_walk.h"
#include "index/key_index.h"

namespace attndb::index {

class GraphIndex;

// A graph of keys [first_key, first_key + graph->num_keys()).
struct GraphRun {
  const GraphIndex* graph = nullptr;
  size_t first_key = 0;
};

class GraphIndex final : public KeyIndex {
 public:
  GraphIndex() = default;  // Has no keys.

  // Bytes that a graph of such keys takes at most, built with the usual slots.
  static uint64_t BytesFor(const GraphShape& shape);

  // One of several equal keys stands for all while neighbours are chosen (distinct_keys.h).
  // REQUIRES: options.slot_bytes is a multiple of 8 from 16 to 64; keys_per_query >= 1.
  static Result<GraphIndex> Build(const GraphSource& source, const GraphOptions& options = {});

  // Builds RoarGraph as published, in fewer than BytesForRoar bytes. Its lists are longer, and it
  // has no routers: walks begin at its entry point.
  static Result<GraphIndex> BuildRoar(const GraphSource& source, const RoarOptions& options = {});
  static uint64_t BytesForRoar(const GraphShape& shape, size_t max_degree);

  // Inserts the source's other keys into `prior`, a RoarGraph of its first keys, by
  // RetrievalAttention's rule (roar_growth.h), instead of building a graph of all. Takes a tenth of
  // a build's time and finds far less (docs/design/001-indexes.md). Builds anew if keys are equal,
  // as Grow. REQUIRES: prior.num_keys() is at least 1 and fewer than the source's.
  static Result<GraphIndex> GrowRoar(const GraphSource& source, const GraphIndex& prior,
                                     const RoarOptions& options = {});

  // Goes on from `prior`, a graph of the source's first keys, by Extend with the queries of the
  // other keys. Builds a graph of all keys anew if these have no queries, or if keys are equal: a
  // key that is inserted finds the copies of one key, and its list leads nowhere else. REQUIRES: as
  // GrowRoar.
  static Result<GraphIndex> Grow(const GraphSource& source, const GraphIndex& prior,
                                 const GraphOptions& options = {});

  // Builds a graph of keys for which graphs of some runs exist: `priors`, of runs that do not
  // overlap, with the same row length and type. Their routers are training queries, in addition to
  // those of the source, which may have none. Their lists stay where nothing better is found. So
  // keys are inserted (one prior graph, of the first keys), and graphs of adjacent segments are
  // merged. Equal keys count as different ones.
  // Inserts need q rows of the new tokens: on heads that look near by, old queries know nothing
  // about new keys (recall .34 instead of .99 on one of SmolLM2's).
  static Result<GraphIndex> Extend(const GraphSource& source, std::span<const GraphRun> priors,
                                   const GraphOptions& options = {});

  // Takes a graph that was written before; `bytes` lie at a multiple of kGraphAlignment, are used
  // in place and must outlive the result. They may hold anything. `object` names them in errors.
  static Result<GraphIndex> Parse(std::span<const std::byte> bytes, const GraphShape& expected,
                                  std::string_view object);

  // The bytes that Parse reads, as long as this lives. Empty if it has no keys.
  std::span<const std::byte> bytes() const { return bytes_; }
  const GraphView& view() const { return view_; }

  // Number of the run's first keys that the graph does not have: sinks, which would harm it. The
  // graph's keys are numbered after them.
  void set_first_key(size_t first_key) { first_key_ = first_key; }

  size_t first_key() const override { return first_key_; }
  size_t num_keys() const override { return first_key_ + view_.header.num_keys; }
  uint64_t memory_bytes() const override { return bytes_.size(); }
  size_t ScratchBytes(const IndexCall& call) const override;
  Status Search(const IndexCall& call, void* scratch, FoundKeys* found,
                SearchCost* cost) const override;

 private:
  static GraphIndex Own(AlignedBuffer buffer, const GraphHeader& header);
  static WalkCall PartOf(const IndexCall& call, const IndexRun& run, const float* best);
  static size_t StateBytes(const IndexCall& call);
  void Take(const IndexRun& run, const FoundKeys& part, FoundKeys* found, float* best) const;

  AlignedBuffer buffer_;  // Holds the bytes, if they were made here.
  std::span<const std::byte> bytes_;
  GraphView view_;
  size_t first_key_ = 0;
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_GRAPH_GRAPH_INDEX_H_
