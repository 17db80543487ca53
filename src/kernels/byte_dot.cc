#include "kernels/byte_dot.h"

#include "common/check.h"
#include "kernels/kernel_table.h"

namespace attndb::kernels {

void DotBytes(const int8_t* row, const int8_t* rows, size_t stride, size_t num_channels,
              const uint32_t* indices, size_t num_indices, int32_t* dots) {
  ATTNDB_DCHECK(num_channels % kRowMultiple == 0);
  Kernels().rows->dot_bytes(row, rows, stride, num_channels, indices, num_indices, dots);
}

}  // namespace attndb::kernels
