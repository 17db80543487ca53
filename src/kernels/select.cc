#include "kernels/select.h"

#include "kernels/kernel_table.h"

namespace attndb::kernels {

float MaxScore(const float* scores, size_t num_scores) {
  return Kernels().select->max_score(scores, num_scores);
}

size_t SelectRange(const float* scores, size_t num_scores, float threshold, uint32_t* indices) {
  return Kernels().select->select_range(scores, num_scores, threshold, indices);
}

size_t TakeNotBelow(const float* scores, size_t num_scores, float threshold, float* taken) {
  return Kernels().select->take_not_below(scores, num_scores, threshold, taken);
}

void MarkNotBelow(const float* scores, size_t num_scores, float threshold, uint64_t* bits) {
  Kernels().select->mark_not_below(scores, num_scores, threshold, bits);
}

float TopThreshold(const float* scores, size_t num_scores, size_t k, void* scratch) {
  return Kernels().select->top_threshold(scores, num_scores, k, scratch);
}

size_t SelectTopKScratchBytes(size_t num_scores) {
  return 2 * (num_scores + kSelectSlack) * sizeof(uint32_t);
}

size_t SelectTopK(const float* scores, size_t num_scores, size_t k, uint32_t* indices,
                  void* scratch) {
  return Kernels().select->select_top_k(scores, num_scores, k, indices, scratch);
}

}  // namespace attndb::kernels
