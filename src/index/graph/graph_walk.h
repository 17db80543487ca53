// Internal to graph: walks of a graph that find keys of large score.
//
// Usually one walk serves all q rows of a call: in each step every row follows its best keys, and
// the keys that come into sight are scored for all rows while their cache lines are at hand,
// whichever row found them. So a row that another row has led to its keys need not look for them. A
// range in the order of its list is walked for each row alone (graph_list_walk.h).
//
// Filter:  keys outside of [first_visible, num_visible) are never scored or found, but seen through
//          (graph_sight.h). If few keys are visible all of them are scored.
// Errors:  none.
// Threads: stateless; concurrent calls must not share scratch.
// Source:  best-first search of graphs.
#ifndef ATTNDB_INDEX_GRAPH_GRAPH_WALK_H_
#define ATTNDB_INDEX_GRAPH_GRAPH_WALK_H_

#include <cstddef>

#include "index/graph/graph_format.h"
#include "index/graph/walk_call.h"
#include "index/key_index.h"

namespace attndb::index {

// Bytes of 64-byte aligned scratch.
size_t WalkScratchBytes(const GraphView& graph, const WalkCall& call);

// Finds keys of the graph, as KeyIndex::Search finds tokens. REQUIRES: at least one visible key and
// one q row.
Status WalkGraph(const GraphView& graph, const WalkCall& call, void* scratch, FoundKeys* found,
                 SearchCost* cost);

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_GRAPH_GRAPH_WALK_H_
