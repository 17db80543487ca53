// Internal: weights of known scores.
#ifndef ATTNDB_KERNELS_WEIGHTS_INL_H_
#define ATTNDB_KERNELS_WEIGHTS_INL_H_

#include "kernels/attention_state.h"
#include "kernels/logits-inl.h"
#include "kernels/weights.h"

namespace attndb::kernels::ATTNDB_TARGET {
namespace {

inline constexpr float kLeastExponent = -100.0f;
inline constexpr auto kLeast = static_cast<float>(kLostWeight);

// Weights below kLeast, and -inf, are 0: denormal numbers would take three times as long.
inline Vec WeightsOfExponents(Vec x) {
  return Sub(Exp2(Max(Set1(kLeastExponent), x)), Set1(kLeast));
}

inline Vec WeightsOf(Vec scores, const WeightMap& map) {
  return WeightsOfExponents(Sub(ExponentsOf(scores, map), Set1(map.shift)));
}

// The weights of the last, partial vector of scores, filled up with -inf, which weighs 0.
inline Vec LastWeights(const float* scores, size_t num_scores, const WeightMap& map) {
  float lanes[kLanes];
  for (size_t l = 0; l < kLanes; ++l) lanes[l] = l < num_scores ? scores[l] : -kInfinity;
  return WeightsOf(Load(lanes), map);
}

void ExpWeights(const float* scores, size_t num_scores, const LogitSpec& logit, float max,
                float* weights) {
  const WeightMap map = MapOf(logit, max);
  size_t i = 0;
  for (; i + kLanes <= num_scores; i += kLanes) {
    Store(weights + i, WeightsOf(Load(scores + i), map));
  }
  if (i == num_scores) return;
  float lanes[kLanes];
  Store(lanes, LastWeights(scores + i, num_scores - i, map));
  for (size_t l = 0; i + l < num_scores; ++l) weights[i + l] = lanes[l];
}

void ToLogits(const float* scores, size_t num_scores, const LogitSpec& logit, float* logits) {
  const WeightMap map = MapOf(logit, 0.0f);
  const auto logit_of = [&](Vec score) { return Mul(ExponentsOf(score, map), Set1(kLn2)); };
  size_t i = 0;
  for (; i + kLanes <= num_scores; i += kLanes) Store(logits + i, logit_of(Load(scores + i)));
  for (; i < num_scores; ++i) logits[i] = First(logit_of(Set1(scores[i])));
}

void SumWeights(const float* scores, size_t num_scores, const LogitSpec& logit, float max,
                float* sums) {
  const WeightMap map = MapOf(logit, max);
  for (size_t begin = 0; begin < num_scores; begin += kWeightBlock) {
    const size_t end = begin + kWeightBlock < num_scores ? begin + kWeightBlock : num_scores;
    Vec total = Zero();
    size_t i = begin;
    for (; i + kLanes <= end; i += kLanes) total = Add(total, WeightsOf(Load(scores + i), map));
    if (i < end) total = Add(total, LastWeights(scores + i, end - i, map));
    *sums++ = ReduceAdd(total);
  }
}

// The sum of clip(weight) over the weights.
template <typename Clip>
inline float SumClipped(const float* weights, size_t num_weights, const Clip& clip) {
  Vec sums[4] = {Zero(), Zero(), Zero(), Zero()};  // Additions to one sum wait for each other.
  size_t i = 0;
  for (; i + 4 * kLanes <= num_weights; i += 4 * kLanes) {
    for (size_t u = 0; u < 4; ++u) {
      sums[u] = Add(sums[u], clip(Load(weights + i + u * kLanes)));
    }
  }
  float sum = ReduceAdd(Add(Add(sums[0], sums[1]), Add(sums[2], sums[3])));
  for (; i < num_weights; ++i) sum += First(clip(Set1(weights[i])));
  return sum;
}

float SumNotBelow(const float* weights, size_t num_weights, float threshold) {
  const Vec limit = Set1(threshold);
  return SumClipped(weights, num_weights, [&](Vec x) { return ZeroBelow(x, limit); });
}

}  // namespace
}  // namespace attndb::kernels::ATTNDB_TARGET

#endif  // ATTNDB_KERNELS_WEIGHTS_INL_H_
