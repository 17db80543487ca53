// Internal: the sizes that AttendBlock's scratch depends on; the same on every ISA.
//
// Threads: constants.
#ifndef ATTNDB_KERNELS_ATTEND_BLOCK_LAYOUT_H_
#define ATTNDB_KERNELS_ATTEND_BLOCK_LAYOUT_H_

#include <cstddef>

namespace attndb::kernels {

// Q rows worked on at a time: with d = 128, q and out are 1 KB a row, 240 KB of L2. Each block
// packs every tile again, which costs 2 % at this size.
inline constexpr size_t kBlockRows = 240;

}  // namespace attndb::kernels

#endif  // ATTNDB_KERNELS_ATTEND_BLOCK_LAYOUT_H_
