#include "kernels/attend.h"

#include "common/check.h"
#include "kernels/kernel_table.h"

namespace attndb::kernels {
namespace {

void CheckRows([[maybe_unused]] const RowsView& rows) {
  ATTNDB_DCHECK(rows.num_elements % kRowMultiple == 0);
  ATTNDB_DCHECK(rows.num_elements <= kMaxRowElements);
}

}  // namespace

void AttendRows(const RowsView& k, const RowsView& v, size_t first_key, size_t num_tokens,
                const float* q, size_t q_stride, size_t num_q_rows, const LogitSpec& logit,
                const StateRows& states) {
  CheckRows(k);
  CheckRows(v);
  ATTNDB_DCHECK(k.dtype == v.dtype);
  ATTNDB_DCHECK(first_key < kKeysPerTile);
  Kernels().attend_rows->attend(k, v, nullptr, first_key, num_tokens, q, q_stride, num_q_rows,
                                logit, states);
}

void AttendGather(const RowsView& k, const RowsView& v, const uint32_t* indices, size_t num_indices,
                  const float* q, size_t q_stride, size_t num_q_rows, const LogitSpec& logit,
                  const StateRows& states) {
  CheckRows(k);
  CheckRows(v);
  ATTNDB_DCHECK(k.dtype == v.dtype);
  ATTNDB_DCHECK(indices != nullptr || num_indices == 0);
  Kernels().attend_listed->attend(k, v, indices, 0, num_indices, q, q_stride, num_q_rows, logit,
                                  states);
}

void AttendScored(const float* scores, size_t scores_stride, size_t num_q_rows, const RowsView& v,
                  const uint32_t* indices, size_t num_indices, const LogitSpec& logit,
                  const StateRows& states) {
  CheckRows(v);
  const KernelTable& table = Kernels();
  const AttendKernels& kernels = *(indices == nullptr ? table.attend_rows : table.attend_listed);
  kernels.attend_scored(scores, scores_stride, num_q_rows, v, indices, num_indices, logit, states);
}

}  // namespace attndb::kernels
