// Internal to clustered: puts keys in an order in which each block of kernels::kWeightBlock is a
// cluster: keys that queries score alike.
//
// Method:  a piece of kPieceKeys keys in token order is halved across its direction of largest
//          spread, each half again, and so on, always at a whole number of blocks. All clusters are
//          then as large as a block of key planes is, a scan of one is a scan of a block, and no
//          table says where one ends.
// Metric:  channels are scaled by the square root of what queries have in them, which makes the
//          spread that queries see and the spread that keys have count alike.
// Pieces:  clusters of 8,192 keys are as good as clusters of all: what is alike is often near, too.
//          They make a prefix of the keys a prefix of the pieces, and a merge a matter of putting
//          pieces side by side.
// Bits:    float32 sums in a fixed order; equal whatever thread does it.
// Errors:  none; keys are finite.
// Threads: pure functions.
// Source:  trees of principal axes: Sproull, Refinements to nearest-neighbor searching in
//          k-dimensional trees, Algorithmica 6, 1991. Whole blocks, the metric and the pieces:
//          ours.
#ifndef ATTNDB_INDEX_CLUSTERED_KEY_ORDER_H_
#define ATTNDB_INDEX_CLUSTERED_KEY_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace attndb::index {

inline constexpr size_t kPieceKeys = 8192;

// Fills order [num_rows] with 0 to num_rows - 1: block b of the order is a cluster. rows [num_rows,
// num_channels] in the metric; num_rows <= kPieceKeys. O(num_rows * num_channels * log(blocks)).
void OrderPiece(const float* rows, size_t num_channels, std::span<uint32_t> order);

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_CLUSTERED_KEY_ORDER_H_
