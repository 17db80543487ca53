// Internal: exponentials and tanh of vectors, float32.
//
// Source: Cephes exp2f (Moshier), degree 6: relative error below 2^-22 on [-0.5, 0.5].
// Errors: none. NaN in, NaN out. 2^-inf = 0, denormal results kept.
// Threads: values.
#ifndef ATTNDB_KERNELS_MATH_INL_H_
#define ATTNDB_KERNELS_MATH_INL_H_

#include "kernels/simd.h"

namespace attndb::kernels::ATTNDB_TARGET {
namespace {

inline constexpr float kInfinity = __builtin_inff();
inline constexpr float kLog2E = 1.44269504088896341f;
inline constexpr float kLn2 = 0.693147180559945309f;

// 2^x for x < 129. Softmax uses base 2, since it needs no reduction of the argument.
inline Vec Exp2(Vec x) {
  x = Max(Set1(-152.0f), x);  // 2^-152 rounds to 0. In this order Max keeps a NaN.
  const Vec n = Round(x);
  const Vec r = Sub(x, n);
  Vec p = Set1(1.535336188319500e-4f);
  p = Fma(p, r, Set1(1.339887440266574e-3f));
  p = Fma(p, r, Set1(9.618437357674640e-3f));
  p = Fma(p, r, Set1(5.550332471162809e-2f));
  p = Fma(p, r, Set1(2.402264791363012e-1f));
  p = Fma(p, r, Set1(6.931472028550421e-1f));
  return TimesPow2(Fma(p, r, Set1(1.0f)), n);
}

// Absolute error about 2^-22: what a capped logit needs.
inline Vec Tanh(Vec x) {
  // 1 - 2 / (e^2x + 1); beyond +-20 it is +-1.
  const Vec t = Sub(Zero(), Max(Set1(-20.0f), Sub(Zero(), x)));
  const Vec e = Exp2(Mul(t, Set1(2.0f * kLog2E)));
  return Sub(Set1(1.0f), Div(Set1(2.0f), Add(e, Set1(1.0f))));
}

}  // namespace
}  // namespace attndb::kernels::ATTNDB_TARGET

#endif  // ATTNDB_KERNELS_MATH_INL_H_
