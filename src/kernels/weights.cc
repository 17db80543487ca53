#include "kernels/weights.h"

#include <cmath>
#include <limits>

#include "kernels/kernel_table.h"

namespace attndb::kernels {

float LogitOf(float score, const LogitSpec& logit) {
  const float scaled = score * logit.scale;
  return logit.soft_cap == 0 ? scaled : logit.soft_cap * std::tanh(scaled / logit.soft_cap);
}

float ScoreOfLogit(float value, const LogitSpec& logit) {
  if (logit.soft_cap == 0) return value / logit.scale;
  const float ratio = value / logit.soft_cap;
  if (ratio <= -1) return -std::numeric_limits<float>::infinity();
  if (ratio >= 1) return std::numeric_limits<float>::infinity();
  return std::atanh(ratio) * logit.soft_cap / logit.scale;
}

void ExpWeights(const float* scores, size_t num_scores, const LogitSpec& logit, float max,
                float* weights) {
  Kernels().weights->exp_weights(scores, num_scores, logit, max, weights);
}

void ToLogits(const float* scores, size_t num_scores, const LogitSpec& logit, float* logits) {
  Kernels().weights->to_logits(scores, num_scores, logit, logits);
}

void SumWeights(const float* scores, size_t num_scores, const LogitSpec& logit, float max,
                float* sums) {
  Kernels().weights->sum_weights(scores, num_scores, logit, max, sums);
}

float SumNotBelow(const float* weights, size_t num_weights, float threshold) {
  return Kernels().weights->sum_not_below(weights, num_weights, threshold);
}

}  // namespace attndb::kernels
