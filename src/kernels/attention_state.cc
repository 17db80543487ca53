#include "kernels/attention_state.h"

#include <cmath>
#include <limits>

namespace attndb::kernels {
namespace {

constexpr float kEmptyMax = -std::numeric_limits<float>::infinity();

struct MergeWeights {
  float max;
  float from;
  float into;
};

// Both empty: max stays -inf, and -inf - -inf must not become a NaN weight.
MergeWeights WeightsOf(float from_max, float into_max) {
  const float max = from_max > into_max ? from_max : into_max;
  if (max == kEmptyMax) return {max, 1.0f, 1.0f};
  return {max, std::exp(from_max - max), std::exp(into_max - max)};
}

}  // namespace

void InitStates(const StateRows& states, size_t num_rows, size_t v_head_dim) {
  for (size_t r = 0; r < num_rows; ++r) {
    states.max[r] = kEmptyMax;
    states.sum[r] = 0.0f;
    float* const out = states.out + r * states.out_stride;
    for (size_t i = 0; i < v_head_dim; ++i) out[i] = 0.0f;
  }
}

void MergeStates(const StateRows& from, const StateRows& into, size_t num_rows, size_t v_head_dim) {
  for (size_t r = 0; r < num_rows; ++r) {
    const MergeWeights weights = WeightsOf(from.max[r], into.max[r]);
    into.max[r] = weights.max;
    into.sum[r] = into.sum[r] * weights.into + from.sum[r] * weights.from;
    const float* const from_out = from.out + r * from.out_stride;
    float* const into_out = into.out + r * into.out_stride;
    for (size_t i = 0; i < v_head_dim; ++i) {
      into_out[i] = into_out[i] * weights.into + from_out[i] * weights.from;
    }
  }
}

void AddToDenominators(const float* logits, const StateRows& states, size_t num_rows,
                       size_t v_head_dim) {
  for (size_t r = 0; r < num_rows; ++r) {
    const MergeWeights weights = WeightsOf(logits[r], states.max[r]);
    states.max[r] = weights.max;
    states.sum[r] = states.sum[r] * weights.into + weights.from;
    float* const out = states.out + r * states.out_stride;
    for (size_t i = 0; i < v_head_dim; ++i) out[i] *= weights.into;
  }
}

void FinishStates(const StateRows& states, size_t num_rows, size_t v_head_dim, float* out,
                  size_t out_stride, float* lse) {
  for (size_t r = 0; r < num_rows; ++r) {
    const float sum = states.sum[r];
    const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
    const float* const from = states.out + r * states.out_stride;
    float* const to = out + r * out_stride;
    for (size_t i = 0; i < v_head_dim; ++i) to[i] = from[i] * inverse + 0.0f;  // -0 becomes +0.
    if (lse != nullptr) lse[r] = sum == 0.0f ? kEmptyMax : states.max[r] + std::log(sum);
  }
}

void MergeFinished(const float* from_out, float from_lse, size_t v_head_dim, float* into_out,
                   float* into_lse) {
  const MergeWeights weights = WeightsOf(from_lse, *into_lse);
  if (weights.max == kEmptyMax) return;
  const float sum = weights.from + weights.into;
  for (size_t i = 0; i < v_head_dim; ++i) {
    into_out[i] = (into_out[i] * weights.into + from_out[i] * weights.from) / sum;
  }
  *into_lse = weights.max + std::log(sum);
}

}  // namespace attndb::kernels
