// Product codes of keys (index/pq): a kind for each setting that plans may name, as codes of one
// setting are of no use to another.
//
// Threads: stateless.
#ifndef ATTNDB_DERIVED_PQ_KIND_H_
#define ATTNDB_DERIVED_PQ_KIND_H_

#include <memory>
#include <vector>

#include "derived/kind.h"

namespace attndb::derived {

// 2 to 32 subspaces of 4, 6 and 8 bits: "pq_8x8" and so on. num_rounds: rounds of k-means; 0 = as
// many as index::PqOptions has.
std::vector<std::unique_ptr<const Kind>> MakePqKinds(size_t num_rounds);

}  // namespace attndb::derived

#endif  // ATTNDB_DERIVED_PQ_KIND_H_
