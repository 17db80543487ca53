// Internal: the online softmax of one tile of scores.
#ifndef ATTNDB_KERNELS_SOFTMAX_INL_H_
#define ATTNDB_KERNELS_SOFTMAX_INL_H_

#include "kernels/attention_state.h"
#include "kernels/dot-inl.h"
#include "kernels/math-inl.h"

namespace attndb::kernels::ATTNDB_TARGET {
namespace {

// StatesFrom() of the header, here with internal linkage.
inline StateRows StatesAt(const StateRows& states, size_t row) {
  return {states.max + row, states.sum + row, states.out + row * states.out_stride,
          states.out_stride};
}

// Turns kTile scores into weights exp(logit - max) of a state, whose max and sum it updates; scores
// outside [begin, end) weigh 0. Returns the factor for the state's `out`. Works in base 2: the
// shift is always max * kLog2E as rounded, so that tiles agree.
[[gnu::noinline]] float SoftmaxTile(float* scores, int begin, int end, const LogitSpec& logit,
                                    float* max, float* sum) {
  constexpr size_t kCount = kTile / kLanes;
  const bool capped = logit.soft_cap != 0;
  const Vec scale = Set1(capped ? logit.scale / logit.soft_cap : logit.scale * kLog2E);
  Vec x[kCount];
#pragma GCC unroll 16
  for (size_t c = 0; c < kCount; ++c) x[c] = Mul(Load(scores + c * kLanes), scale);
  if (capped) {
    for (size_t c = 0; c < kCount; ++c) x[c] = Mul(Tanh(x[c]), Set1(logit.soft_cap * kLog2E));
  }
  if (begin > 0 || end < static_cast<int>(kTile)) {
#pragma GCC unroll 16
    for (size_t c = 0; c < kCount; ++c) {
      const int lane0 = static_cast<int>(c * kLanes);
      x[c] = KeepLanes(x[c], Set1(-kInfinity), begin - lane0, end - lane0);
    }
  }
  Vec largest = x[0];
#pragma GCC unroll 16
  for (size_t c = 1; c < kCount; ++c) largest = Max(largest, x[c]);
  const float old_shift = *max * kLog2E;
  float shift = old_shift;
  float rescale = 1.0f;
  if (const float new_shift = ReduceMax(largest); new_shift > old_shift) {
    *max = new_shift * kLn2;
    shift = *max * kLog2E;
    rescale = First(Exp2(Set1(old_shift - shift)));
  }
  // Only -inf so far: subtract 0, so that all weights become 2^-inf = 0 and not NaN.
  const Vec subtrahend = Set1(shift == -kInfinity ? 0.0f : shift);
  Vec total = Zero();
#pragma GCC unroll 16
  for (size_t c = 0; c < kCount; ++c) {
    x[c] = Exp2(Sub(x[c], subtrahend));
    total = Add(total, x[c]);
    Store(scores + c * kLanes, x[c]);
  }
  *sum = *sum * rescale + ReduceAdd(total);
  return rescale;
}

}  // namespace
}  // namespace attndb::kernels::ATTNDB_TARGET

#endif  // ATTNDB_KERNELS_SOFTMAX_INL_H_
