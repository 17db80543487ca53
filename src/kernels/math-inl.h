// Internal: exponentials and tanh of vectors, float32.
//
// Method: 2^x = 2^n * p(x - n), n the nearest whole number, p of degree 5 with the least relative
//         error on [-0.5, 0.5]: 2^-23.4, with rounding below 2^-22.
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

// 2^r for r in [-0.5, 0.5].
inline Vec Exp2OfFraction(Vec r) {
  Vec p = Set1(1.326472032815218e-3f);
  p = Fma(p, r, Set1(9.671512991189957e-3f));
  p = Fma(p, r, Set1(5.550733581185341e-2f));
  p = Fma(p, r, Set1(2.4022242426872253e-1f));
  p = Fma(p, r, Set1(6.931470036506653e-1f));
  return Fma(p, r, Set1(1.0f));
}

// 2^x for x < 129. Softmax uses base 2, since it needs no reduction of the argument.
inline Vec Exp2(Vec x) {
  x = Max(Set1(-152.0f), x);  // 2^-152 rounds to 0. In this order Max keeps a NaN.
  const Vec n = Round(x);
  return TimesPow2(Exp2OfFraction(Sub(x, n)), n);
}

// The same if neither x nor 2^x is small. REQUIRES: x in [-126, 127), or NaN, for which the result
// is any number.
inline Vec Exp2OfNormal(Vec x) {
  const Vec n = Round(x);
  return TimesNormalPow2(Exp2OfFraction(Sub(x, n)), n);
}

// Absolute error about 2^-22: a capped logit needs this.
inline Vec Tanh(Vec x) {
  // 1 - 2 / (e^2x + 1); beyond +-20 it is +-1.
  const Vec t = Sub(Zero(), Max(Set1(-20.0f), Sub(Zero(), x)));
  const Vec e = Exp2(Mul(t, Set1(2.0f * kLog2E)));
  return Sub(Set1(1.0f), Div(Set1(2.0f), Add(e, Set1(1.0f))));
}

}  // namespace
}  // namespace attndb::kernels::ATTNDB_TARGET

#endif  // ATTNDB_KERNELS_MATH_INL_H_
