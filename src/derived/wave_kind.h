// Clusters of directions with their sums (index/coarse/wave_keys.h): a kind for each setting that
// plans may name.
//
// Threads: stateless.
#ifndef ATTNDB_DERIVED_WAVE_KIND_H_
#define ATTNDB_DERIVED_WAVE_KIND_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "derived/kind.h"

namespace attndb::derived {

// 16 to 64 keys a cluster: "wave_16" and so on. num_rounds: rounds of k-means; 0 = as the index
// thinks fit.
std::vector<std::unique_ptr<const Kind>> MakeWaveKinds(size_t num_rounds);

}  // namespace attndb::derived

#endif  // ATTNDB_DERIVED_WAVE_KIND_H_
