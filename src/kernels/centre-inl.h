// Internal: sums of rows, and rows centred and scaled.
#ifndef ATTNDB_KERNELS_CENTRE_INL_H_
#define ATTNDB_KERNELS_CENTRE_INL_H_

#include "kernels/simd.h"

namespace attndb::kernels::ATTNDB_TARGET {
namespace {

void SumRows(const float* rows, size_t stride, size_t num_rows, size_t num_channels, float* sums) {
  for (size_t d = 0; d < num_channels; d += kLanes) {
    Vec sum = Zero();
    for (size_t i = 0; i < num_rows; ++i) sum = Add(sum, Load(rows + i * stride + d));
    Store(sums + d, sum);
  }
}

void CentreRows(float* rows, size_t stride, size_t num_rows, size_t num_channels, const float* mean,
                const float* scale, float* norm_sq) {
  for (size_t i = 0; i < num_rows; ++i) {
    float* const row = rows + i * stride;
    Vec sum = Zero();
    for (size_t d = 0; d < num_channels; d += kLanes) {
      const Vec x = Mul(Sub(Load(row + d), Load(mean + d)), Load(scale + d));
      Store(row + d, x);
      sum = Fma(x, x, sum);
    }
    norm_sq[i] = ReduceAdd(sum);
  }
}

}  // namespace
}  // namespace attndb::kernels::ATTNDB_TARGET

#endif  // ATTNDB_KERNELS_CENTRE_INL_H_
