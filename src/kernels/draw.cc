#include "kernels/draw.h"

#include "kernels/kernel_table.h"

namespace attndb::kernels {

float SumAtMost(const float* weights, size_t num_weights, float limit) {
  return Kernels().sum_at_most(weights, num_weights, limit);
}

void LiftScores(const float* scores, size_t stride, size_t num_rows, size_t num_scores,
                const LogitSpec& logit, const float* thresholds, float* lifts) {
  Kernels().lift_scores(scores, stride, num_rows, num_scores, logit, thresholds, lifts);
}

size_t SelectLifted(const float* lifts, const float* noise, size_t num_lifts, uint32_t* indices) {
  return Kernels().select_lifted(lifts, noise, num_lifts, indices);
}

}  // namespace attndb::kernels
