#include "index/flat/mass_search.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "index/mass_cut.h"
#include "kernels/select.h"
#include "kernels/weights.h"

namespace attndb::index {
namespace {

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
  const double most = kernels::kMostExponent;
  const double denominator = above > -most ? std::exp(std::min(above, most)) : 0.0;
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
  MassCut cut = FindMassCut(weights, num_candidates, need);
  size_t count = 0;
  for (size_t i = 0; i < num_candidates; ++i) {
    indices[count] = indices[i];
    count += static_cast<size_t>(cut.Takes(weights[i]));
  }
  return count;
}

size_t MassSearch::Refine(const SearchCall&, float, uint32_t*, size_t num_indices, void*) const {
  return num_indices;
}

}  // namespace attndb::index
