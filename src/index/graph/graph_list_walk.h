// Internal to graph: finds a range by AlayaDB's Algorithm 1 (DIPRS).
//
// Each q row walks alone. A list C begins with one start key. Its keys are followed one by one, in
// the order in which they entered it. A neighbour that was not visited is scored. It is appended
// while C has at most l0 keys, or if its score is at least the best minus beta. The best score is
// the largest of C and of the caller's tokens: sinks, window, tail (7.1). Keys out of range of the
// final best are dropped at the end.
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

// Like WalkGraph, for a range.
Status WalkInListOrder(const GraphView& graph, const WalkCall& call, void* scratch,
                       FoundKeys* found, SearchCost* cost);

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_GRAPH_GRAPH_LIST_WALK_H_
