#include "kernels/score.h"

#include "common/check.h"
#include "kernels/kernel_table.h"

namespace attndb::kernels {

void ScoreRows(const RowsView& k, size_t num_tokens, const float* q, size_t q_stride,
               size_t num_q_rows, float* scores, size_t scores_stride) {
  ATTNDB_DCHECK(k.num_elements % kRowMultiple == 0);
  Kernels().attend_rows->score(k, nullptr, num_tokens, q, q_stride, num_q_rows, scores,
                               scores_stride);
}

void ScoreGather(const RowsView& k, const uint32_t* indices, size_t num_indices, const float* q,
                 size_t q_stride, size_t num_q_rows, float* scores, size_t scores_stride) {
  ATTNDB_DCHECK(k.num_elements % kRowMultiple == 0);
  Kernels().attend_listed->score(k, indices, num_indices, q, q_stride, num_q_rows, scores,
                                 scores_stride);
}

}  // namespace attndb::kernels
