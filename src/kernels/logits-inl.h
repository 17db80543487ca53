// Internal: logits of known scores.
#ifndef ATTNDB_KERNELS_LOGITS_INL_H_
#define ATTNDB_KERNELS_LOGITS_INL_H_

#include "kernels/attention_state.h"
#include "kernels/math-inl.h"

namespace attndb::kernels::ATTNDB_TARGET {
namespace {

// How scores become weights, in base 2.
struct WeightMap {
  float scale;
  float cap;  // 0: none.
  // Subtracted from exponents; 0 where all logits are -inf, so that no weight becomes NaN.
  float shift;
};

inline WeightMap MapOf(const LogitSpec& logit, float max) {
  const bool capped = logit.soft_cap != 0;
  return {capped ? logit.scale / logit.soft_cap : logit.scale * kLog2E, logit.soft_cap * kLog2E,
          max == -kInfinity ? 0.0f : max * kLog2E};
}

// Logits in base 2, before the shift.
inline Vec ExponentsOf(Vec scores, const WeightMap& map) {
  const Vec x = Mul(scores, Set1(map.scale));
  if (map.cap == 0) return x;
  // A cap would make a finite logit of -inf; `excluded` is -inf for it, else next to nothing.
  const Vec excluded = Sub(Zero(), Max(Mul(scores, Set1(-1e-37f)), Zero()));
  return Add(Mul(Tanh(x), Set1(map.cap)), excluded);
}

}  // namespace
}  // namespace attndb::kernels::ATTNDB_TARGET

#endif  // ATTNDB_KERNELS_LOGITS_INL_H_
