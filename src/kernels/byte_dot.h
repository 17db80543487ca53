// Inner products of rows of bytes.
//
// Shapes:  rows [.., num_channels] int8, `stride` bytes apart; num_channels a multiple of 16, at
//          most 2^16.
// Bits:    the same on every ISA: integers.
// Errors:  none.
// Threads: stateless.
#ifndef ATTNDB_KERNELS_BYTE_DOT_H_
#define ATTNDB_KERNELS_BYTE_DOT_H_

#include <cstddef>
#include <cstdint>

namespace attndb::kernels {

// dots[i] = row . rows[indices[i]].
void DotBytes(const int8_t* row, const int8_t* rows, size_t stride, size_t num_channels,
              const uint32_t* indices, size_t num_indices, int32_t* dots);

}  // namespace attndb::kernels

#endif  // ATTNDB_KERNELS_BYTE_DOT_H_
