// The lanes of a store's background (derived/lanes.h): the builder's lanes, one for short jobs, and
// one for merges.
//
// Threads: constants.
#ifndef ATTNDB_STORE_LANES_H_
#define ATTNDB_STORE_LANES_H_

#include <cstddef>

#include "derived/builder.h"

namespace attndb::store {

enum Lane : size_t { kShortLane = derived::kNumBuildLanes, kMergeLane, kNumLanes };

}  // namespace attndb::store

#endif  // ATTNDB_STORE_LANES_H_
