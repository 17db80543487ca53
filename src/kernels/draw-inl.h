// Internal: drawing tokens by weight.
#ifndef ATTNDB_KERNELS_DRAW_INL_H_
#define ATTNDB_KERNELS_DRAW_INL_H_

#include "kernels/draw.h"
#include "kernels/select-inl.h"
#include "kernels/weights-inl.h"

namespace attndb::kernels::ATTNDB_TARGET {
namespace {

float SumAtMost(const float* weights, size_t num_weights, float limit) {
  const Vec most = Set1(limit);
  return SumClipped(weights, num_weights, [&](Vec x) { return Min(x, most); });
}

// Raises lifts to those of kRows rows; the first pass only writes them.
template <size_t kRows, bool kCapped>
void LiftPass(const float* scores, size_t stride, size_t num_scores, const LogitSpec& logit,
              const float* thresholds, bool is_first, float* lifts) {
  const WeightMap map = MapOf(logit, 0.0f);
  Vec below[kRows];
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) below[r] = Set1(-thresholds[r]);
  const auto raise = [&](Vec most, const auto& load) {
#pragma GCC unroll 16
    for (size_t r = 0; r < kRows; ++r) {
      const Vec lift = kCapped ? Fma(ExponentsOf(load(r), map), Set1(kLn2), below[r])
                               : Fma(load(r), Set1(logit.scale), below[r]);
      // Min gives its second operand for a NaN.
      most = Max(most, Min(lift, Set1(kInfinity)));
    }
    return most;
  };
  size_t i = 0;
  for (; i + kLanes <= num_scores; i += kLanes) {
    const Vec most = is_first ? Set1(-kInfinity) : Load(lifts + i);
    Store(lifts + i, raise(most, [&](size_t r) { return Load(scores + r * stride + i); }));
  }
  for (; i < num_scores; ++i) {
    const Vec most = Set1(is_first ? -kInfinity : lifts[i]);
    lifts[i] = First(raise(most, [&](size_t r) { return Set1(scores[r * stride + i]); }));
  }
}

void LiftScores(const float* scores, size_t stride, size_t num_rows, size_t num_scores,
                const LogitSpec& logit, const float* thresholds, float* lifts) {
  ForEachPass<false>(num_rows, [&]<size_t kRows>(size_t r) {
    (logit.soft_cap == 0 ? LiftPass<kRows, false>
                         : LiftPass<kRows, true>)(scores + r * stride, stride, num_scores, logit,
                                                  thresholds + r, r == 0, lifts);
  });
}

size_t SelectLifted(const float* lifts, const float* noise, size_t num_lifts, uint32_t* indices) {
  const auto mask_of = [](Vec lift, Vec extra) { return MaskNotBelow(Add(lift, extra), Zero()); };
  size_t count = 0;
  const size_t done = SelectGroups(
      num_lifts, [&](size_t i) { return mask_of(Load(lifts + i), Load(noise + i)); }, indices,
      &count);
  for (size_t i = done; i < num_lifts; ++i) {
    indices[count] = static_cast<uint32_t>(i);
    count += mask_of(Set1(lifts[i]), Set1(noise[i])) & 1u;
  }
  return count;
}

}  // namespace
}  // namespace attndb::kernels::ATTNDB_TARGET

#endif  // ATTNDB_KERNELS_DRAW_INL_H_
