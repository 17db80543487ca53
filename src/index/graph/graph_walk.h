// Internal to graph: walks that find keys of large score.
//
// One walk serves all q rows of a call: in each step every row follows its best keys, and the keys
// that come into sight, whoever's they are, are scored for all rows while their lines are at hand.
// So a row that another has led to its keys need not look for them.
//
// Filter:  keys outside of [first_visible, num_visible) are never scored or found, but seen
//          through: in place of such a neighbour stand its own (AlayaDB 7.1). Of few visible keys
//          all are scored.
// Errors:  none.
// Threads: stateless; concurrent calls must not share scratch.
// Source:  best-first search of graphs; AlayaDB, Algorithm 1 (DIPRS).
#ifndef ATTNDB_INDEX_GRAPH_GRAPH_WALK_H_
#define ATTNDB_INDEX_GRAPH_GRAPH_WALK_H_

#include <cstddef>
#include <cstdint>

#include "index/graph/graph_format.h"
#include "index/key_index.h"

namespace attndb::index {

// How a range is walked.
enum class RangeWalk : uint8_t {
  kBestFirst,  // Of the keys in sight the best is followed first, while one is in range.
  kListOrder,  // AlayaDB's Algorithm 1: keys are followed in the order in which they were found.
};

// One run of a search; keys are those of the graph.
struct WalkCall {
  SearchSpec spec;
  kernels::RowsView keys;             // Their form.
  storage::RowLease* rows = nullptr;  // By which they are read:
  storage::Strip strip;               // ... those of this strip,
  size_t first_key = 0;               // ... from this row of it on.
  size_t first_visible = 0;
  size_t num_visible = 0;  // > first_visible.
  const float* q = nullptr;
  size_t q_stride = 0;
  size_t num_q_rows = 0;
  const float* best = nullptr;  // As of IndexCall; null: nothing is known.
};

// Of 64-byte aligned scratch.
size_t WalkScratchBytes(const GraphView& graph, const WalkCall& call, RangeWalk range_walk);

// Finds keys of the graph, as KeyIndex::Search does tokens. REQUIRES: at least one visible key and
// one q row.
Status WalkGraph(const GraphView& graph, const WalkCall& call, RangeWalk range_walk, void* scratch,
                 FoundKeys* found, SearchCost* cost);

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_GRAPH_GRAPH_WALK_H_
