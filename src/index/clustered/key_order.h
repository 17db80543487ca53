// Internal to clustered: puts keys in an order in which each block of kernels::kWeightBlock keys is
// a cluster of keys that queries score alike.
//
// Method:  a piece of kPieceKeys keys in token order is halved across its direction of largest
//          spread, each half again, and so on, always at a whole number of blocks. All clusters
//          then have the size of a block of key planes, the scan of a cluster is the scan of a
//          block, and no table of clusters' ends is needed.
// Metric:  channels are scaled by the square root of the queries' root mean square in them, so that
//          the spread of queries and the spread of keys count equally.
// Pieces:  clusters of pieces of 8,192 keys are as good as clusters of all keys: similar keys are
//          often near each other in the text. Thus a prefix of the keys is a prefix of the pieces,
//          and runs are merged by putting pieces side by side.
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
