// Internal to graph: builds over keys of which some are equal, byte for byte.
//
// The nearest keys of a key, or of a query, are then its copies, so that lists of neighbours lead
// from copy to copy and a walk never leaves them. Therefore a graph is built of one key of each
// kind, and its lists are handed on to the copies: a copy leads to copies near it in the order of
// tokens, at distances 1, 2, 4 and so on, and to the kinds that its kind leads to, each by the copy
// next to it. The copies also lead, in turn, to the kinds that have many copies: a walk that meets
// one such kind then finds all of them, although few other keys lead there.
//
// Equal keys score alike for every q, so whatever finds one of them has found the score of all.
// Nearly equal keys count as different ones.
//
// Errors:  kCancelled; kResourceExhausted: no memory.
// Threads: values; one thread.
#ifndef ATTNDB_INDEX_GRAPH_DISTINCT_KEYS_H_
#define ATTNDB_INDEX_GRAPH_DISTINCT_KEYS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "attndb/result.h"
#include "common/aligned_buffer.h"
#include "index/graph/graph_format.h"
#include "index/graph/graph_source.h"
#include "index/graph/neighbour_table.h"

namespace attndb::index {

class DistinctKeys {
 public:
  // Groups the source's keys. The source must outlive the result. `cancel`: as in GraphOptions.
  static Result<DistinctKeys> Of(const GraphSource& source,
                                 const std::atomic<bool>* cancel = nullptr);

  bool all_differ() const { return firsts_.size() == source_.num_keys; }

  // Returns a source with the first key of each kind, in token order, and with all training
  // queries. The token of a query is moved: the kinds before the new token are the kinds that have
  // a key before the old token. Valid until this is destroyed or the next call.
  Result<GraphSource> KindSource();

  // Returns the bytes of a graph of all keys, from a graph of the kinds. *header describes the
  // graph of all keys, with slots of at most max_degree neighbours; its entry point and routers are
  // filled in.
  Result<AlignedBuffer> Expand(const GraphView& kinds, size_t max_degree,
                               GraphHeader* header) const;

 private:
  explicit DistinctKeys(const GraphSource& source) : source_(source) {}

  std::span<const uint32_t> KeysOf(uint32_t kind) const {
    return {keys_.data() + begin_[kind], begin_[kind + 1] - begin_[kind]};
  }
  Status GroupByBytes(const std::atomic<bool>* cancel);
  std::vector<uint32_t> KindsOfMany() const;
  // The copy of the kind that follows `key`; the last copy if none does.
  uint32_t NextCopy(uint32_t kind, uint32_t key) const;
  // Copies near the copy number `at` of the kind.
  std::vector<uint32_t> NearCopies(uint32_t kind, size_t at, size_t most) const;
  // Assigns the lists of a kind's copies. kinds: the kinds that the kind leads to. of_many: the
  // kinds of many copies; each copy leads to one of them.
  void LinkCopies(uint32_t kind, std::span<const uint32_t> kinds, std::span<const uint32_t> of_many,
                  NeighbourTable* table) const;
  void ExpandRouters(const GraphView& kinds, const GraphHeader& header, std::byte* bytes) const;

  const GraphSource& source_;
  std::vector<uint32_t> firsts_;  // [kind]: its first key. Ascending.
  // Keys of kind i, ascending: keys_[begin_[i], begin_[i + 1]).
  std::vector<size_t> begin_;
  std::vector<uint32_t> keys_;
  AlignedBuffer rows_;            // Rows of the kinds.
  std::vector<uint32_t> tokens_;  // Tokens of the queries.
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_GRAPH_DISTINCT_KEYS_H_
