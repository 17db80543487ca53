#include "kernels/attend_block.h"

#include "common/check.h"
#include "kernels/attend_block_layout.h"
#include "kernels/kernel_table.h"

namespace attndb::kernels {

size_t AttendBlockScratchBytes(size_t head_dim, size_t v_head_dim) {
  return (head_dim + v_head_dim + kBlockRows) * kKeysPerTile * sizeof(float);
}

void AttendBlock(const RowsView& k, const RowsView& v, size_t first_key, size_t num_tokens,
                 const float* q, size_t q_stride, size_t num_q_rows, const uint32_t* lo,
                 const uint32_t* hi, const LogitSpec& logit, const StateRows& states,
                 void* scratch) {
  ATTNDB_DCHECK(k.num_elements % kRowMultiple == 0 && v.num_elements % kRowMultiple == 0);
  ATTNDB_DCHECK(k.dtype == v.dtype);
  ATTNDB_DCHECK(first_key < kKeysPerTile);
  ATTNDB_DCHECK(reinterpret_cast<uintptr_t>(scratch) % 64 == 0);
  Kernels().attend_block->attend_block(k, v, first_key, num_tokens, q, q_stride, num_q_rows, lo, hi,
                                       logit, states, scratch);
}

}  // namespace attndb::kernels
