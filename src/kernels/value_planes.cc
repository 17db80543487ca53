#include "kernels/value_planes.h"

#include "common/check.h"
#include "kernels/kernel_table.h"

namespace attndb::kernels {

void EncodeValues(const float* rows, size_t stride, size_t num_tokens, size_t num_elements,
                  uint32_t bits, const ValueBlock& block) {
  ATTNDB_DCHECK(num_tokens > 0 && num_tokens <= kValueBlock);
  Kernels().values->encode_values(rows, stride, num_tokens, num_elements, bits, block);
}

float LongestRow(const RowsView& rows, size_t num_rows) {
  return Kernels().values->longest_row(rows, num_rows);
}

void AddValueMean(const ValuePlanesView& values, size_t block, float weight, float* out) {
  Kernels().values->add_value_mean(values, block, weight, out);
}

void AttendCoded(const float* scores, size_t scores_stride, size_t num_q_rows,
                 const ValuePlanesView& values, const uint32_t* indices, size_t num_indices,
                 const LogitSpec& logit, const StateRows& states) {
  ATTNDB_DCHECK(values.bits == 8);
  if (num_indices == 0) return;
  Kernels().values->attend_coded(scores, scores_stride, num_q_rows, values, indices, num_indices,
                                 logit, states);
}

}  // namespace attndb::kernels
