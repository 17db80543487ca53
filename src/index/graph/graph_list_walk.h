// Internal to graph: finds a range as AlayaDB's Algorithm 1 (DIPRS) does.
//
// Each q row walks alone. A list C begins with one start key; its keys are followed one by one, in
// the order in which they entered it. A neighbour that was not visited is scored, and appended
// while C has at most l0 keys, or if its score is at least the best minus beta. The best score is
// that of C and of what the caller knows: sinks, window, tail (7.1). Keys that are out of range of
// the final best are dropped in the end.
//
// Start:   the entry point of the graph or, if that is hidden, the next visible key: the paper
//          leaves it open.
// Errors:  those of reading keys.
// Threads: stateless; concurrent calls must not share scratch.
// Source:  AlayaDB (arXiv:2504.10326), Algorithm 1 and 7.1. Neighbours of one key are scored
//          together and then offered in order, which gives the same list.
#ifndef ATTNDB_INDEX_GRAPH_GRAPH_LIST_WALK_H_
#define ATTNDB_INDEX_GRAPH_GRAPH_LIST_WALK_H_

#include <cstddef>

#include "index/graph/graph_format.h"
#include "index/graph/walk_call.h"

namespace attndb::index {

// Bytes of 64-byte aligned scratch.
size_t ListWalkScratchBytes(const GraphView& graph, const WalkCall& call);

// As WalkGraph, for a range.
Status WalkInListOrder(const GraphView& graph, const WalkCall& call, void* scratch,
                       FoundKeys* found, SearchCost* cost);

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_GRAPH_GRAPH_LIST_WALK_H_
