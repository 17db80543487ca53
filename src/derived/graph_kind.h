// Graphs over keys (index/graph/) as derived objects: built as attndb prefers, or as RoarGraph was
// published; one for each kv head, shared by its group of q heads, or one for each of these:
// docs/formats/graph.md.
//
// Threads: constant; thread-safe.
#ifndef ATTNDB_DERIVED_GRAPH_KIND_H_
#define ATTNDB_DERIVED_GRAPH_KIND_H_

#include <memory>
#include <vector>

#include "derived/kind.h"
#include "derived/kinds.h"

namespace attndb::derived {

// The kinds kGraph and kRoarGraph, each in two forms: for a kv head, and for each q head of its
// group.
std::vector<std::unique_ptr<const Kind>> MakeGraphKinds(const KindOptions& options);

}  // namespace attndb::derived

#endif  // ATTNDB_DERIVED_GRAPH_KIND_H_
