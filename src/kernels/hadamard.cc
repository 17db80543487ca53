#include "kernels/hadamard.h"

#include "common/check.h"
#include "kernels/kernel_table.h"

namespace attndb::kernels {

void HadamardRows(float* rows, size_t stride, size_t num_rows, size_t num_channels,
                  const float* signs) {
  ATTNDB_DCHECK(num_channels % kRowMultiple == 0);
  Kernels().rows->hadamard_rows(rows, stride, num_rows, num_channels, signs);
}

}  // namespace attndb::kernels
