// Graphs over keys (index/graph/) as derived objects, one for each kv head, shared by its group of
// q heads: docs/formats/graph.md.
//
// Threads: constant; thread-safe.
#ifndef ATTNDB_DERIVED_GRAPH_KIND_H_
#define ATTNDB_DERIVED_GRAPH_KIND_H_

#include <memory>

#include "derived/kind.h"
#include "derived/kinds.h"

namespace attndb::derived {

std::unique_ptr<const Kind> MakeGraphKind(const KindOptions& options);

// The same, built as RoarGraph was published.
std::unique_ptr<const Kind> MakeRoarGraphKind(const KindOptions& options);

}  // namespace attndb::derived

#endif  // ATTNDB_DERIVED_GRAPH_KIND_H_
