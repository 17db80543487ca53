#include "kernels/score_blocks.h"

#include "kernels/kernel_table.h"

namespace attndb::kernels {

void SummarizeScores(const float* scores, size_t num_scores, const LogitSpec& logit, float* maxima,
                     float* sums) {
  Kernels().select->summarize_scores(scores, num_scores, logit, maxima, sums);
}

void WeighBlocks(const float* maxima, const float* sums, size_t num_blocks, const LogitSpec& logit,
                 float max, float* masses) {
  ExpWeights(maxima, num_blocks, logit, max, masses);
  for (size_t b = 0; b < num_blocks; ++b) masses[b] *= sums[b];
}

size_t SelectFromBlocks(const float* scores, size_t num_scores, const float* maxima,
                        float threshold, uint32_t* indices) {
  return Kernels().select->select_from_blocks(scores, num_scores, maxima, threshold, indices);
}

}  // namespace attndb::kernels
