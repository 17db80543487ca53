// Scores: inner products of q rows with keys, float32, unscaled.
//
// Shapes:  q as in attend.h; scores of q row r at scores + r * scores_stride.
// Units:   strides in elements. |error| <= head_dim * 2^-24 * sum |q_i k_i|.
// Errors:  none; sizes and alignment are preconditions. NaN in, NaN out.
// Threads: stateless.
#ifndef ATTNDB_KERNELS_SCORE_H_
#define ATTNDB_KERNELS_SCORE_H_

#include <cstddef>
#include <cstdint>

#include "kernels/layout.h"

namespace attndb::kernels {

// scores[r][i] = q_r . k_i for i in [0, num_tokens). The keys are read once for all q rows.
void ScoreRows(const RowsView& k, size_t num_tokens, const float* q, size_t q_stride,
               size_t num_q_rows, float* scores, size_t scores_stride);

// scores[r][j] = q_r . k_indices[j]; prefetches rows ahead.
void ScoreGather(const RowsView& k, const uint32_t* indices, size_t num_indices, const float* q,
                 size_t q_stride, size_t num_q_rows, float* scores, size_t scores_stride);

}  // namespace attndb::kernels

#endif  // ATTNDB_KERNELS_SCORE_H_
