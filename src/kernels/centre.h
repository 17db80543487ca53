// Sums of rows, and rows centred and scaled: the preparation of keys for quantization.
//
// Shapes:  rows [num_rows, num_channels] float32, `stride` elements apart; mean, scale and sums
//          [num_channels], a multiple of 16.
// Bits:    the same on every ISA, except norm_sq.
// Errors:  none. NaN and inf spread.
// Threads: stateless.
#ifndef ATTNDB_KERNELS_CENTRE_H_
#define ATTNDB_KERNELS_CENTRE_H_

#include <cstddef>

namespace attndb::kernels {

// sums[d] = sum over rows of channel d, in the order of rows.
void SumRows(const float* rows, size_t stride, size_t num_rows, size_t num_channels, float* sums);

// row = (row - mean) * scale, for each row; norm_sq[row] is then the sum of its squares, in
// float32, with at most num_channels / 4 dependent additions.
void CentreRows(float* rows, size_t stride, size_t num_rows, size_t num_channels, const float* mean,
                const float* scale, float* norm_sq);

}  // namespace attndb::kernels

#endif  // ATTNDB_KERNELS_CENTRE_H_
