// Summaries of blocks of keys (index/coarse): a kind for each setting that plans may name.
//
// Threads: stateless.
#ifndef ATTNDB_DERIVED_BLOCKS_KIND_H_
#define ATTNDB_DERIVED_BLOCKS_KIND_H_

#include <memory>
#include <vector>

#include "derived/kind.h"

namespace attndb::derived {

// Bounds of pages of 8 to 64 keys, "quest_16" and so on; 1 to 8 representatives of blocks of 32 to
// 512, "infllm_128x4" and so on.
std::vector<std::unique_ptr<const Kind>> MakeBlocksKinds();

}  // namespace attndb::derived

#endif  // ATTNDB_DERIVED_BLOCKS_KIND_H_
