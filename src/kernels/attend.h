// Exact attention of a few q rows over a run of tokens, or over listed tokens of it: decode.
//
// Shapes:  q [num_q_rows, k.num_elements] float32, zero padded, not pre-scaled, row r at
//          q + r * q_stride; k, v [num_tokens, num_elements], see layout.h; one state a q row.
//          k and v share a dtype; their num_elements may differ.
// Units:   strides in elements.
// Tiles:   tokens are folded tile by tile, kKeysPerTile at a time. first_key is the place of token
//          0 in its tile, < kKeysPerTile: with tiles that begin at multiples of kKeysPerTile of a
//          token's number in its context, a row's state does not depend on where runs are cut.
// Bits:    the bits of a q row's state depend on the row, on the tokens and on the tiles. They do
//          not depend on the rows beside it, nor on whether AttendRows or AttendBlock folds them.
//          One exception: the sign of an `out` that is 0.
// Cost:    K and V are read once for all q rows (in registers for up to 4, from L1 beyond).
//          Accumulates in float32.
// Errors:  none; sizes and alignment are preconditions. See attention_state.h for NaN and inf.
// Threads: stateless; concurrent calls must not share states.
#ifndef ATTNDB_KERNELS_ATTEND_H_
#define ATTNDB_KERNELS_ATTEND_H_

#include <cstddef>
#include <cstdint>

#include "kernels/attention_state.h"
#include "kernels/layout.h"

namespace attndb::kernels {

// Folds tokens [0, num_tokens) into the states of all q rows. Any num_q_rows, for instance a group.
void AttendRows(const RowsView& k, const RowsView& v, size_t first_key, size_t num_tokens,
                const float* q, size_t q_stride, size_t num_q_rows, const LogitSpec& logit,
                const StateRows& states);

// Like AttendRows, over the tokens indices[0, num_indices), in that order. The first of them is at
// the begin of a tile. Prefetches rows ahead. An index may occur twice (the token then counts
// twice). REQUIRES: each index is a row of k and v.
void AttendGather(const RowsView& k, const RowsView& v, const uint32_t* indices, size_t num_indices,
                  const float* q, size_t q_stride, size_t num_q_rows, const LogitSpec& logit,
                  const StateRows& states);

// Like AttendGather, for q rows with known scores: scores[r * scores_stride + j] = q.k (unscaled)
// of q row r and token indices[j], or token j if `indices` is null. Reads no key.
void AttendScored(const float* scores, size_t scores_stride, size_t num_q_rows, const RowsView& v,
                  const uint32_t* indices, size_t num_indices, const LogitSpec& logit,
                  const StateRows& states);

}  // namespace attndb::kernels

#endif  // ATTNDB_KERNELS_ATTEND_H_
