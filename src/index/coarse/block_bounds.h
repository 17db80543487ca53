// Bounds of the scores that keys of a block may have, from each channel's largest and smallest
// value in the block.
//
// Bound:   no key k of the block has q.k above
//            sum over channels of max(q * smallest, q * largest)
//              = sum of max(q, 0) * largest + min(q, 0) * smallest,
//          which is the score of a row that has the largest values and then the smallest ones, for
//          a q of twice the length: kernels/score.h computes it as it computes scores of keys. It
//          holds for every q, up to the rounding of float32 sums.
// Numbers: bounds are values of the keys, kept in their type without rounding.
// Errors:  none. Keys are finite.
// Threads: pure functions.
// Source:  Quest (arXiv:2406.10774) 3.2: its criticality of a page.
#ifndef ATTNDB_INDEX_COARSE_BLOCK_BOUNDS_H_
#define ATTNDB_INDEX_COARSE_BLOCK_BOUNDS_H_

#include <cstddef>

#include "index/coarse/block_source.h"

namespace attndb::index {

// Writes a row for each block: [blocks, 2 * num_elements] of the keys' type, largest values first.
void WriteBounds(const BlockSource& source, size_t block_keys, std::byte* rows);

// Splits a q row into its positive and negative parts, as rows of bounds need it: split [2 *
// num_channels].
void SplitQuery(const float* q, size_t num_channels, float* split);

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_COARSE_BLOCK_BOUNDS_H_
