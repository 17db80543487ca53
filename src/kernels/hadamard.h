// A random rotation of rows by signs and Walsh-Hadamard transforms. It spreads the content of a few
// channels over all channels, so that quantization with one scale per row fits.
//
// Map:     p = the largest power of two <= num_channels, H = the Hadamard matrix of order p over
//          sqrt(p) in natural order. x *= signs[0, n); x[0, p) = H x[0, p); then, if p < n, x *=
//          signs[n, 2n); x[n - p, n) = H x[n - p, n). Orthogonal: inner products of rows are kept
//          if the rows have the same signs.
// Bits:    the same on every ISA.
// Errors:  none. NaN and inf spread to the whole row.
// Threads: stateless.
// Source:  randomized Hadamard transform (Ailon and Chazelle 2009); against outliers of keys as in
//          QuaRot (arXiv:2404.00456). Ours differs: two overlapping transforms serve dims that are
//          not a power of two, without padding.
#ifndef ATTNDB_KERNELS_HADAMARD_H_
#define ATTNDB_KERNELS_HADAMARD_H_

#include <cstddef>

namespace attndb::kernels {

// Rotates each row in place. signs: [2 * num_channels] of +1 or -1; only the first half is read if
// num_channels is a power of two. stride in elements.
// REQUIRES: num_channels a multiple of 16.
void HadamardRows(float* rows, size_t stride, size_t num_rows, size_t num_channels,
                  const float* signs);

}  // namespace attndb::kernels

#endif  // ATTNDB_KERNELS_HADAMARD_H_
