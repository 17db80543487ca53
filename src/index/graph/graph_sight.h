// Internal to graph: the keys that come into sight of a walk, each once.
//
// Filter:  some keys may be hidden (sinks, the window, tokens behind a reused prefix); walks see
//          through them, so that keys behind them still come into sight. kHidden: a hidden
//          neighbour is replaced by its own neighbours. kAll: the neighbours of every neighbour
//          come into sight, after all of the neighbours, and hidden ones are left out: AlayaDB 7.1,
//          as in ACORN (Patel et al. 2024).
// Threads: one thread.
#ifndef ATTNDB_INDEX_GRAPH_GRAPH_SIGHT_H_
#define ATTNDB_INDEX_GRAPH_GRAPH_SIGHT_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "index/graph/graph_format.h"
#include "index/graph/walk_call.h"

namespace attndb::index {

// Numbers of keys, one bit each; not owned.
class KeySet {
 public:
  static size_t Bytes(size_t num_keys) { return (num_keys + 511) / 512 * 64; }
  KeySet(void* bits, size_t num_keys) : words_(static_cast<uint64_t*>(bits)), num_keys_(num_keys) {
    Clear();
  }

  void Clear() { std::memset(words_, 0, Bytes(num_keys_)); }
  bool Has(uint32_t key) const { return (words_[key / 64] >> key % 64 & 1) != 0; }
  // Adds a key; true if it was not there.
  bool Add(uint32_t key) {
    const uint64_t bit = uint64_t{1} << key % 64;
    const bool is_new = (words_[key / 64] & bit) == 0;
    words_[key / 64] |= bit;
    return is_new;
  }

 private:
  uint64_t* words_;
  size_t num_keys_;
};

class KeySight {
 public:
  // Whether the call hides some keys of the graph.
  static bool HidesKeys(const GraphView& graph, const WalkCall& call) {
    return call.first_visible > 0 || call.num_visible < graph.header.num_keys;
  }
  // Number of KeySets that it needs.
  static size_t NumSets(const GraphView& graph, const WalkCall& call) {
    return HidesKeys(graph, call) && call.spec.expand == Expand::kAll ? 2 : 1;
  }

  // `sets` has room for NumSets sets of all keys. Bytes of the graph that are read are added to
  // *cost.
  KeySight(const GraphView& graph, const WalkCall& call, std::byte* sets, SearchCost* cost)
      : graph_(graph),
        first_(static_cast<uint32_t>(call.first_visible)),
        end_(static_cast<uint32_t>(call.num_visible)),
        hides_keys_(HidesKeys(graph, call)),
        expands_all_(NumSets(graph, call) > 1),
        seen_(sets, graph.header.num_keys),
        opened_(sets + (expands_all_ ? KeySet::Bytes(graph.header.num_keys) : 0),
                graph.header.num_keys),
        cost_(*cost) {}

  bool hides_keys() const { return hides_keys_; }
  bool IsVisible(uint32_t key) const { return key >= first_ && key < end_; }
  KeySet& seen() { return seen_; }

  void Clear() {
    seen_.Clear();
    opened_.Clear();
  }

  // Calls append(key) if the key is new and visible; if it is new and hidden, append of its new
  // visible neighbours.
  template <typename Append>
  void See(uint32_t key, const Append& append) {
    if (!seen_.Add(key)) return;
    if (IsVisible(key)) return append(key);
    // Hidden neighbours stay unseen: a key in sight may lead to them.
    SeeVisible(key, append);
  }

  // Calls append for all new keys to which `key` leads.
  template <typename Append>
  void SeeFrom(uint32_t key, const Append& append) {
    uint32_t ids[kMaxSlotIds];
    const size_t count = Read(key, ids);
    if (!expands_all_) {
      for (size_t j = 0; j < count; ++j) See(ids[j], append);
      return;
    }
    for (size_t j = 0; j < count; ++j) {
      if (IsVisible(ids[j]) && seen_.Add(ids[j])) append(ids[j]);
    }
    for (size_t j = 0; j < count; ++j) {
      if (opened_.Add(ids[j])) SeeVisible(ids[j], append);
    }
  }

 private:
  size_t Read(uint32_t key, uint32_t* ids) {
    cost_.bytes_touched += graph_.header.slot_bytes;
    return graph_.neighbours.Read(key, ids);
  }

  template <typename Append>
  void SeeVisible(uint32_t key, const Append& append) {
    uint32_t ids[kMaxSlotIds];
    const size_t count = Read(key, ids);
    for (size_t j = 0; j < count; ++j) {
      if (IsVisible(ids[j]) && seen_.Add(ids[j])) append(ids[j]);
    }
  }

  const GraphView& graph_;
  const uint32_t first_, end_;
  const bool hides_keys_;
  const bool expands_all_;
  KeySet seen_;
  KeySet opened_;  // Keys whose neighbours are in sight; the same memory if it is not needed.
  SearchCost& cost_;
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_GRAPH_GRAPH_SIGHT_H_
