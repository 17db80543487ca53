// Internal: linear combinations. Two registers of columns and up to four rows at a time: eight
// sums, so that additions do not wait for each other, for two loads of the table and four of
// factors.
#ifndef ATTNDB_KERNELS_COMBINE_INL_H_
#define ATTNDB_KERNELS_COMBINE_INL_H_

#include "kernels/combine.h"
#include "kernels/simd.h"

namespace attndb::kernels::ATTNDB_TARGET {
namespace {

inline constexpr size_t kCombineRows = 4;
static_assert(kCombineColumns % (2 * kLanes) == 0);

// out[r * out_stride] += sums[r], for `left` columns at most.
template <size_t kRows>
[[gnu::always_inline]] inline void AddSums(const Vec (&sums)[kRows][2], size_t left, float* out,
                                           size_t out_stride) {
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) {
    float* const to = out + r * out_stride;
    if (left >= 2 * kLanes) {
      Store(to, Add(Load(to), sums[r][0]));
      Store(to + kLanes, Add(Load(to + kLanes), sums[r][1]));
      continue;
    }
    float parts[2 * kLanes];
    Store(parts, sums[r][0]);
    Store(parts + kLanes, sums[r][1]);
    for (size_t j = 0; j < left; ++j) to[j] += parts[j];
  }
}

template <size_t kRows>
inline void CombinePass(const FunctionTable& table, const float* factors, size_t factors_stride,
                        size_t num_columns, float* out, size_t out_stride) {
  for (size_t i = 0; i < num_columns; i += 2 * kLanes) {
    const float* const values = table.values + FunctionTable::Offset(table.num_functions, 0, i);
    Vec sums[kRows][2];
#pragma GCC unroll 16
    for (size_t r = 0; r < kRows; ++r) sums[r][0] = sums[r][1] = Zero();
    for (size_t f = 0; f < table.num_functions; ++f) {
      const Vec a = Once(Load(values + f * kCombineColumns));
      const Vec b = Once(Load(values + f * kCombineColumns + kLanes));
#pragma GCC unroll 16
      for (size_t r = 0; r < kRows; ++r) {
        const Vec factor = Once(Set1(factors[r * factors_stride + f]));
        sums[r][0] = Fma(factor, a, sums[r][0]);
        sums[r][1] = Fma(factor, b, sums[r][1]);
      }
    }
    AddSums(sums, num_columns - i, out + i, out_stride);
  }
}

void AddCombinations(const FunctionTable& table, const float* factors, size_t factors_stride,
                     size_t num_rows, size_t num_columns, float* out, size_t out_stride) {
  for (size_t r = 0; r < num_rows; r += kCombineRows) {
    const float* const rows = factors + r * factors_stride;
    float* const to = out + r * out_stride;
    const size_t left = num_rows - r;
    if (left >= 4) CombinePass<4>(table, rows, factors_stride, num_columns, to, out_stride);
    if (left == 3) CombinePass<3>(table, rows, factors_stride, num_columns, to, out_stride);
    if (left == 2) CombinePass<2>(table, rows, factors_stride, num_columns, to, out_stride);
    if (left == 1) CombinePass<1>(table, rows, factors_stride, num_columns, to, out_stride);
  }
}

}  // namespace
}  // namespace attndb::kernels::ATTNDB_TARGET

#endif  // ATTNDB_KERNELS_COMBINE_INL_H_
