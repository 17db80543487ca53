// Exact attention of many q rows over a run of tokens: prefill. A blocked matrix product, bound by
// arithmetic, where attend.h is bound by memory.
//
// Shapes:  as in attend.h, also first_key. For a kv head, the q rows are those of all its q heads
//          and all new tokens, in any order; rows with similar masks should be neighbours
//          (token-major).
// Mask:    q row r sees tokens [lo[r], hi[r]) of the run; lo = null means 0, hi = null means
//          num_tokens. Causal, sliding window and prefix masks all have this form. An empty range
//          is legal. Tiles that no row of a block sees are not computed.
// Scratch: caller-owned, 64-byte aligned, AttendBlockScratchBytes() bytes; holds nothing after.
// Bits:    as in attend.h.
// Errors:  none; sizes and alignment are preconditions. See attention_state.h for NaN and inf.
// Threads: stateless; concurrent calls must not share states or scratch.
// Source:  FlashAttention-2 (arXiv:2307.08691) Alg. 1; register tiles as in BLIS.
#ifndef ATTNDB_KERNELS_ATTEND_BLOCK_H_
#define ATTNDB_KERNELS_ATTEND_BLOCK_H_

#include <cstddef>
#include <cstdint>

#include "kernels/attention_state.h"
#include "kernels/layout.h"

namespace attndb::kernels {

// Bytes of scratch for padded head dims; fits a 1 MiB L2 up to 256. Independent of the ISA.
size_t AttendBlockScratchBytes(size_t head_dim, size_t v_head_dim);

// Folds the tokens that each row sees into its state.
// REQUIRES: lo[r] <= num_tokens, hi[r] <= num_tokens (lo[r] >= hi[r] is an empty range).
void AttendBlock(const RowsView& k, const RowsView& v, size_t first_key, size_t num_tokens,
                 const float* q, size_t q_stride, size_t num_q_rows, const uint32_t* lo,
                 const uint32_t* hi, const LogitSpec& logit, const StateRows& states,
                 void* scratch);

}  // namespace attndb::kernels

#endif  // ATTNDB_KERNELS_ATTEND_BLOCK_H_
