#include "kernels/centre.h"

#include "common/check.h"
#include "kernels/kernel_table.h"

namespace attndb::kernels {

void SumRows(const float* rows, size_t stride, size_t num_rows, size_t num_channels, float* sums) {
  ATTNDB_DCHECK(num_channels % kRowMultiple == 0);
  Kernels().rows->sum_rows(rows, stride, num_rows, num_channels, sums);
}

void CentreRows(float* rows, size_t stride, size_t num_rows, size_t num_channels, const float* mean,
                const float* scale, float* norm_sq) {
  ATTNDB_DCHECK(num_channels % kRowMultiple == 0);
  Kernels().rows->centre_rows(rows, stride, num_rows, num_channels, mean, scale, norm_sq);
}

}  // namespace attndb::kernels
