#include "index/flat/mass_search.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "kernels/select.h"
#include "kernels/weights.h"

namespace attndb::index {
namespace {

// What is selected: all weights above `least`, and the first `num_equal` of those equal to it.
struct Cut {
  float least;
  size_t num_equal;
};

// The highest cut that holds `need`. Positive floats compare as their bits do, so bisecting these
// takes some 30 passes of additions, which sorting could not match.
Cut FindCut(const float* weights, size_t num_weights, double need) {
  const auto mass_from = [&](uint32_t bits) {
    return double{kernels::SumNotBelow(weights, num_weights, std::bit_cast<float>(bits))};
  };
  uint32_t low = 0;                               // Holds enough, or all there is.
  uint32_t high = std::bit_cast<uint32_t>(2.0f);  // Holds nothing: weights are at most 1.
  while (high - low > 1) {
    const uint32_t middle = low + (high - low) / 2;
    (mass_from(middle) >= need ? low : high) = middle;
  }
  const float least = std::bit_cast<float>(low);
  const double missing = std::max(0.0, need - mass_from(high));
  return {least, static_cast<size_t>(std::ceil(missing / std::max(double{least}, 1e-300)))};
}

// What a denominator is above the largest logit at most: as good as infinite, but fit for sums.
constexpr double kMostNats = 700;

size_t SelectAll(const TokenRange& tokens, uint32_t* indices) {
  const size_t n = tokens.end - tokens.begin;
  std::iota(indices, indices + n, static_cast<uint32_t>(tokens.begin));
  return n;
}

}  // namespace

size_t MassSearch::ScratchBytes(size_t num_visible) const {
  return num_visible * sizeof(float) + 64;
}

size_t MassSearch::Search(const SearchCall& call, uint32_t* indices, void* scratch) const {
  const TokenRange middle = call.middle;
  const size_t n = middle.end - middle.begin;
  if (n == 0) return 0;
  const float max_logit = kernels::LogitOf(call.view.Max(), logit_);
  float* const weights = static_cast<float*>(scratch);
  const auto mass_of = [&](TokenRange range) {
    return WeighRange(call.view, range, logit_, max_logit, weights);
  };
  const double fixed = mass_of({0, middle.begin}) + mass_of({middle.end, call.view.num_tokens});
  const double all = mass_of(middle);
  if (!(fixed + all >= 0)) return SelectAll(middle, indices);  // NaN: nothing is left out.
  const double above = double{call.denominator_logit} - double{max_logit};
  const double denominator = above > -kMostNats ? std::exp(std::min(above, kMostNats)) : 0.0;
  // Apart, so that p = 1 takes all tokens however much the denominator weighs.
  const double need = p_ * (fixed + all) - fixed - (1 - p_) * denominator;
  if (need <= 0) return 0;
  const double may_drop = all - need;
  if (!(may_drop > 0)) return SelectAll(middle, indices);
  // Even all tokens below this weight together could be dropped. A little less, for rounding.
  const double light = may_drop / static_cast<double>(n) * 0.999;
  const float threshold =
      kernels::ScoreOfLogit(max_logit + static_cast<float>(std::log(light)) - 1e-3f, logit_);
  const size_t num_candidates = SelectTokens(call.view, middle, threshold, indices);
  if (num_candidates == 0) return 0;
  for (size_t i = 0; i < num_candidates; ++i) weights[i] = call.view.scores[indices[i]];
  kernels::ExpWeights(weights, num_candidates, logit_, max_logit, weights);
  const Cut cut = FindCut(weights, num_candidates, need);
  size_t count = 0;
  size_t num_equal = 0;
  for (size_t i = 0; i < num_candidates; ++i) {
    indices[count] = indices[i];
    const bool equal = weights[i] == cut.least && num_equal < cut.num_equal;
    num_equal += static_cast<size_t>(equal);
    count += static_cast<size_t>(equal || weights[i] > cut.least);
  }
  return count;
}

size_t MassSearch::Refine(const SearchCall&, float, uint32_t*, size_t num_indices, void*) const {
  return num_indices;
}

}  // namespace attndb::index
