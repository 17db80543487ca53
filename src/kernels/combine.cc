#include "kernels/combine.h"

#include "common/check.h"
#include "kernels/kernel_table.h"

namespace attndb::kernels {

void AddCombinations(const FunctionTable& table, const float* factors, size_t factors_stride,
                     size_t num_rows, size_t num_columns, float* out, size_t out_stride) {
  ATTNDB_DCHECK(table.num_columns % kCombineColumns == 0);
  ATTNDB_DCHECK(num_columns <= table.num_columns);
  Kernels().rows->add_combinations(table, factors, factors_stride, num_rows, num_columns, out,
                                   out_stride);
}

}  // namespace attndb::kernels
