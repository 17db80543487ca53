// Internal: keeps the tokens that a draw may take, while a scan has their scores.
#ifndef ATTNDB_KERNELS_KEEP_INL_H_
#define ATTNDB_KERNELS_KEEP_INL_H_

#include "kernels/draw.h"
#include "kernels/logits-inl.h"

namespace attndb::kernels::ATTNDB_TARGET {
namespace {

inline constexpr size_t kMostUnrolledRows = 4;

// Calls f<num_rows>(), which unrolls its loops over q rows; f<0>() if there are more rows.
template <typename F>
inline void WithRowCount(size_t num_rows, const F& f) {
  switch (num_rows) {
    case 1:
      return f.template operator()<1>();
    case 2:
      return f.template operator()<2>();
    case 3:
      return f.template operator()<3>();
    case 4:
      return f.template operator()<4>();
    default:
      return f.template operator()<0>();
  }
}

// Calls f<num_rows, whether logits have a cap>(); with a cap, rows are any number.
template <typename F>
inline void WithPass(const LogitSpec& logit, size_t num_rows, const F& f) {
  if (logit.soft_cap != 0) return f.template operator()<0, true>();
  WithRowCount(num_rows, [&]<size_t kRows>() { f.template operator()<kRows, false>(); });
}

// Turns scores into logits.
template <bool kCapped>
struct LogitMap {
  WeightMap map;
  float scale;

  explicit LogitMap(const LogitSpec& logit) : map(MapOf(logit, 0.0f)), scale(logit.scale) {}

  // The logit of `score` plus `extra`.
  [[gnu::always_inline]] Vec Plus(Vec score, Vec extra) const {
    return kCapped ? Fma(ExponentsOf(score, map), Set1(kLn2), extra)
                   : Fma(score, Set1(scale), extra);
  }
};

// Keeps tokens, vector after vector. A vector's store may write beyond the kept tokens; the next
// store overwrites this. kRows: 0 for any number of q rows.
template <size_t kRows, bool kCapped>
class Keeper {
 public:
  Keeper(const DrawRule& rule, size_t num_rows, const KeptTokens& kept)
      : map_(rule.logit),
        thresholds_(rule.thresholds),
        num_rows_(kRows == 0 ? num_rows : kRows),
        to_(kept),
        count_(kept.count) {}

  size_t count() const { return count_; }

  // Keeps among kLanes tokens; load(r) gives the scores of row r.
  template <typename LoadScores>
  [[gnu::always_inline]] void KeepVector(const float* noise, uint32_t first_token,
                                         const LoadScores& load) {
    const Vec extra = Load(noise);
    const uint32_t mask = MaskOf(extra, load);
    StoreSelected(mask, extra, to_.noise + count_);
    for (size_t r = 0; r < NumRows(); ++r) {
      StoreSelected(mask, load(r), to_.scores + r * to_.stride + count_);
    }
    count_ += StoreIndices(mask, first_token, to_.tokens + count_);
  }

  // Keeps one token or not, and writes nothing beyond it: for the last ones.
  void KeepOne(float noise, uint32_t token, const float* scores, size_t stride) {
    const auto load = [&](size_t r) { return Set1(scores[r * stride]); };
    if ((MaskOf(Set1(noise), load) & 1u) == 0) return;
    to_.tokens[count_] = token;
    to_.noise[count_] = noise;
    for (size_t r = 0; r < NumRows(); ++r) {
      to_.scores[r * to_.stride + count_] = scores[r * stride];
    }
    ++count_;
  }

 private:
  size_t NumRows() const { return kRows == 0 ? num_rows_ : kRows; }

  template <typename LoadScores>
  [[gnu::always_inline]] uint32_t MaskOf(Vec extra, const LoadScores& load) const {
    uint32_t mask = 0;
    for (size_t r = 0; r < NumRows(); ++r) {
      mask |= MaskNotBelow(map_.Plus(load(r), extra), Set1(thresholds_[r]));
    }
    return mask;
  }

  // Copies, since stores might change the caller's objects, for all that the compiler knows.
  const LogitMap<kCapped> map_;
  const float* const thresholds_;
  const size_t num_rows_;
  const KeptTokens to_;
  size_t count_;
};

}  // namespace
}  // namespace attndb::kernels::ATTNDB_TARGET

#endif  // ATTNDB_KERNELS_KEEP_INL_H_
