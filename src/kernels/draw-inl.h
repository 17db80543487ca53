// Internal: drawing tokens by weight.
#ifndef ATTNDB_KERNELS_DRAW_INL_H_
#define ATTNDB_KERNELS_DRAW_INL_H_

#include "kernels/draw.h"
#include "kernels/keep-inl.h"
#include "kernels/weights-inl.h"

namespace attndb::kernels::ATTNDB_TARGET {
namespace {

float SumAtMost(const float* weights, size_t num_weights, float limit) {
  const Vec most = Set1(limit);
  return SumClipped(weights, num_weights, [&](Vec x) { return Min(x, most); });
}

// Margins of a vector of tokens; load(r) gives the scores of row r.
template <bool kCapped, typename LoadScores>
[[gnu::always_inline]] inline Vec MarginOf(const LogitMap<kCapped>& map, const float* thresholds,
                                           size_t num_rows, const LoadScores& load) {
  Vec most = Set1(-kInfinity);
  for (size_t r = 0; r < num_rows; ++r) {
    // Min gives its second operand if one is NaN.
    most = Max(most, Min(map.Plus(load(r), Set1(-thresholds[r])), Set1(kInfinity)));
  }
  return most;
}

template <size_t kRows, bool kCapped>
void MarginPass(const DrawRule& rule, const float* scores, size_t stride, size_t any_rows,
                size_t num_scores, float* margins) {
  const size_t num_rows = kRows == 0 ? any_rows : kRows;
  const LogitMap<kCapped> map(rule.logit);
  const auto margin_of = [&](const auto& load) {
    return MarginOf(map, rule.thresholds, num_rows, load);
  };
  size_t i = 0;
  for (; i + kLanes <= num_scores; i += kLanes) {
    Store(margins + i, margin_of([&](size_t r) { return Load(scores + r * stride + i); }));
  }
  for (; i < num_scores; ++i) {
    margins[i] = First(margin_of([&](size_t r) { return Set1(scores[r * stride + i]); }));
  }
}

void FindMargins(const DrawRule& rule, const float* scores, size_t stride, size_t num_rows,
                 size_t num_scores, float* margins) {
  WithPass(rule.logit, num_rows, [&]<size_t kRows, bool kCapped>() {
    MarginPass<kRows, kCapped>(rule, scores, stride, num_rows, num_scores, margins);
  });
}

template <size_t kRows, bool kCapped>
void KeepPass(const DrawRule& rule, const float* scores, size_t stride, size_t any_rows,
              size_t num_scores, const float* noise, uint32_t first_token, KeptTokens* kept) {
  Keeper<kRows, kCapped> keeper(rule, any_rows, *kept);
  size_t i = 0;
  for (; i + kLanes <= num_scores; i += kLanes) {
    keeper.KeepVector(noise + i, first_token + static_cast<uint32_t>(i),
                      [&](size_t r) { return Load(scores + r * stride + i); });
  }
  for (; i < num_scores; ++i) {
    keeper.KeepOne(noise[i], first_token + static_cast<uint32_t>(i), scores + i, stride);
  }
  kept->count = keeper.count();
}

void KeepTokens(const DrawRule& rule, const float* scores, size_t stride, size_t num_rows,
                size_t num_scores, const float* noise, uint32_t first_token, KeptTokens* kept) {
  WithPass(rule.logit, num_rows, [&]<size_t kRows, bool kCapped>() {
    KeepPass<kRows, kCapped>(rule, scores, stride, num_rows, num_scores, noise, first_token, kept);
  });
}

// The first, third, fifth ... of the set bits of a mask of a vector.
inline uint32_t EverySecond(uint32_t mask) {
  static_assert(kLanes <= 16);
  uint32_t is_odd = mask;  // Bit i: whether bits 0 to i have an odd number of ones.
  for (unsigned shift = 1; shift < kLanes; shift *= 2) is_odd ^= is_odd << shift;
  return mask & is_odd;
}

// At most a vector of kept tokens, to be appended to the lists.
template <bool kCapped>
struct KeptVector {
  const LogitMap<kCapped>& map;
  const KeptTokens& kept;
  size_t first;
  size_t count;
  size_t num_rows;

  template <typename T>
  [[gnu::always_inline]] Vec From(const T* array) const {
    const auto* const from = reinterpret_cast<const float*>(array + first);
    return count == kLanes ? Load(from) : LoadFirst(from, count);
  }
  [[gnu::always_inline]] Vec Scores(size_t row) const {
    return From(kept.scores + row * kept.stride);
  }

  // Appends the lanes of the mask, with `less` subtracted from their logits.
  template <bool kHasChances>
  [[gnu::always_inline]] void AppendTo(DrawnTokens* list, uint32_t mask, Vec less,
                                       Vec chance) const {
    if (mask == 0) return;
    const size_t at = list->count;
    StoreSelected(mask, From(kept.tokens), reinterpret_cast<float*>(list->tokens + at));
    if constexpr (kHasChances) StoreSelected(mask, chance, list->margins + at);
    const bool are_scores = list->are_scores;
    for (size_t r = 0; r < num_rows; ++r) {
      const Vec scores = Scores(r);
      const Vec logits = are_scores ? scores : map.Plus(scores, Sub(Zero(), less));
      StoreSelected(mask, logits, list->logits + r * list->stride + at);
    }
    list->count = at + static_cast<size_t>(__builtin_popcount(mask));
  }
};

template <size_t kRows, bool kCapped>
void PartPass(const DrawRule& rule, const KeptTokens& kept, size_t begin, size_t end,
              size_t any_rows, float heavy_margin, DrawnLists* lists) {
  const size_t num_rows = kRows == 0 ? any_rows : kRows;
  const LogitMap<kCapped> map(rule.logit);
  const auto part = [&](size_t first, size_t count) __attribute__((always_inline)) {
    const KeptVector<kCapped> from = {map, kept, first, count, num_rows};
    const Vec margin =
        MarginOf(map, rule.thresholds, num_rows, [&](size_t r) { return from.Scores(r); });
    const uint32_t present = (1u << count) - 1;
    const uint32_t drawn = MaskNotBelow(Add(margin, from.From(kept.noise)), Zero()) & present;
    const Vec less = Min(margin, Zero());
    const Vec chance = kept.chances == nullptr ? less : Add(less, from.From(kept.chances));
    const uint32_t certain = MaskNotBelow(chance, Zero()) & drawn;
    const uint32_t not_heavy = MaskNotBelow(Set1(heavy_margin), margin) & certain;
    const uint32_t light = drawn & ~certain;
    const uint32_t first_half = EverySecond(light);
    const bool odd_first = lists->even.count > lists->odd.count;
    const uint32_t even = odd_first ? light & ~first_half : first_half;
    from.template AppendTo<true>(&lists->even, even, less, chance);
    from.template AppendTo<true>(&lists->odd, light & ~even, less, chance);
    from.template AppendTo<false>(&lists->certain, not_heavy, Zero(), Zero());
    from.template AppendTo<false>(&lists->heavy, certain & ~not_heavy, Zero(), Zero());
  };
  size_t i = begin;
  for (; i + kLanes <= end; i += kLanes) part(i, kLanes);
  if (i < end) part(i, end - i);
}

void PartDrawn(const DrawRule& rule, const KeptTokens& kept, size_t begin, size_t end,
               size_t num_rows, float heavy_margin, DrawnLists* lists) {
  WithPass(rule.logit, num_rows, [&]<size_t kRows, bool kCapped>() {
    PartPass<kRows, kCapped>(rule, kept, begin, end, num_rows, heavy_margin, lists);
  });
}

}  // namespace
}  // namespace attndb::kernels::ATTNDB_TARGET

#endif  // ATTNDB_KERNELS_DRAW_INL_H_
