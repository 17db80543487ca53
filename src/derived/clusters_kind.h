// Clustered keys (index/clustered/) as derived objects: docs/formats/clusters.md.
//
// Threads: constant; thread-safe.
#ifndef ATTNDB_DERIVED_CLUSTERS_KIND_H_
#define ATTNDB_DERIVED_CLUSTERS_KIND_H_

#include <memory>

#include "derived/kind.h"

namespace attndb::derived {

std::unique_ptr<const Kind> MakeClustersKind();

}  // namespace attndb::derived

#endif  // ATTNDB_DERIVED_CLUSTERS_KIND_H_
