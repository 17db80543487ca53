#include "kernels/value_planes.h"

#include "common/check.h"
#include "kernels/kernel_table.h"

namespace attndb::kernels {

void EncodeValues(const ValueRows& block, uint8_t* codes, float* scale) {
  ATTNDB_DCHECK(block.num_tokens > 0 && block.num_tokens <= kValueBlock);
  Kernels().values->encode_values(block, codes, scale);
}

void MeanOfValues(const ValueRows& block, uint16_t* mean, float* norm) {
  ATTNDB_DCHECK(block.num_tokens > 0 && block.num_tokens <= kValueBlock);
  Kernels().values->mean_of_values(block, mean, norm);
}

float LongestRow(const RowsView& rows, size_t num_rows) {
  return Kernels().values->longest_row(rows, num_rows);
}

void AddValueMean(const ValueMeansView& values, size_t block, float weight, float* out) {
  Kernels().values->add_value_mean(values, block, weight, out);
}

void AttendCoded(const float* scores, size_t scores_stride, size_t num_q_rows,
                 const ValuePlanesView& values, const uint32_t* indices, size_t num_indices,
                 const LogitSpec& logit, const StateRows& states) {
  if (num_indices == 0) return;
  Kernels().values->attend_coded(scores, scores_stride, num_q_rows, values, indices, num_indices,
                                 logit, states);
}

}  // namespace attndb::kernels
