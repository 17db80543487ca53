// Scores summed up by blocks, while they lie in the cache, so that a search can read one number in
// 64 instead of all scores again.
//
// Blocks:  kWeightBlock scores each, the first from the first score on; the last may be shorter.
// Units:   as weights.h.
// Errors:  none; num_scores < 2^31.
// Threads: stateless.
// Source:  sums relative to their own maximum: Milakov and Gimelshein (arXiv:1805.02867).
#ifndef ATTNDB_KERNELS_SCORE_BLOCKS_H_
#define ATTNDB_KERNELS_SCORE_BLOCKS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/attention_state.h"
#include "kernels/weights.h"

namespace attndb::kernels {

// maxima[b]: the largest score of block b; NaN if one is NaN. sums[b], unless `sums` is null: the
// sum of exp(logit - logit of maxima[b]) over the block, so at least 1, or 0 if all are -inf.
void SummarizeScores(const float* scores, size_t num_scores, const LogitSpec& logit, float* maxima,
                     float* sums);

// masses[b] = sums[b] * exp(logit of maxima[b] - max): the result of SumWeights, from the summary.
void WeighBlocks(const float* maxima, const float* sums, size_t num_blocks, const LogitSpec& logit,
                 float max, float* masses);

// Like SelectRange; reads only the blocks whose maximum reaches the threshold (or is NaN).
// REQUIRES: `indices` holds num_scores + kSelectSlack.
size_t SelectFromBlocks(const float* scores, size_t num_scores, const float* maxima,
                        float threshold, uint32_t* indices);

}  // namespace attndb::kernels

#endif  // ATTNDB_KERNELS_SCORE_BLOCKS_H_
