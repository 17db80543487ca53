#include "index/flat/mass_search.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/check.h"
#include "kernels/select.h"
#include "kernels/weights.h"

namespace attndb::index {
namespace {

// A candidate. Heavier ones come first, of equal ones the earlier token.
struct Item {
  float weight;
  uint32_t rank;  // Among the candidates.
  friend bool operator<(const Item& a, const Item& b) {
    return a.weight != b.weight ? a.weight > b.weight : a.rank < b.rank;
  }
};

double Sum(const float* values, size_t num_values) {
  return std::accumulate(values, values + num_values, 0.0);
}

// The first items in order whose weights reach `need`: returns the last of them. Quickselect by
// weight: halves that are not needed are never sorted.
Item LastNeeded(Item* items, size_t num_items, double need) {
  Item* begin = items;
  Item* end = items + num_items;
  while (end - begin > 1) {
    Item* const half = begin + (end - begin) / 2;
    std::nth_element(begin, half, end);
    double upper = 0;
    for (const Item* item = begin; item != half; ++item) upper += double{item->weight};
    if (upper >= need) {
      end = half;
    } else {
      need -= upper;
      begin = half;
    }
  }
  return *begin;
}

size_t SelectAll(const TokenRange& tokens, uint32_t* indices) {
  const size_t n = tokens.end - tokens.begin;
  std::iota(indices, indices + n, static_cast<uint32_t>(tokens.begin));
  return n;
}

}  // namespace

size_t MassSearch::NumIndices(size_t num_middle) const {
  return num_middle + kernels::kSelectSlack;
}

size_t MassSearch::ScratchBytes(size_t num_visible) const {
  return num_visible * (sizeof(float) + sizeof(Item)) + 64;
}

size_t MassSearch::Search(const SearchCall& call, uint32_t* indices, void* scratch) const {
  const TokenRange middle = call.middle;
  ATTNDB_CHECK(middle.begin <= middle.end && middle.end <= call.num_visible);
  const size_t n = middle.end - middle.begin;
  if (n == 0) return 0;
  const float* const scores = call.scores + middle.begin;
  const float max_logit =
      kernels::LogitOf(kernels::MaxScore(call.scores, call.num_visible), logit_);
  float* const weights = static_cast<float*>(scratch);
  const auto mass_of = [&](uint64_t begin, uint64_t end) {
    kernels::SumWeights(call.scores + begin, end - begin, logit_, max_logit, weights);
    return Sum(weights, kernels::NumWeightBlocks(end - begin));
  };
  const double fixed = mass_of(0, middle.begin) + mass_of(middle.end, call.num_visible);
  const double all = mass_of(middle.begin, middle.end);
  if (!(fixed + all >= 0)) return SelectAll(middle, indices);  // NaN: nothing is left out.
  const double need = p_ * (fixed + all) - fixed;
  if (need <= 0) return 0;
  const double may_drop = all - need;
  if (!(may_drop > 0)) return SelectAll(middle, indices);
  // Even all tokens below this weight together could be dropped. A little less, for rounding.
  const double light = may_drop / static_cast<double>(n) * 0.999;
  const float threshold =
      kernels::ScoreOfLogit(max_logit + static_cast<float>(std::log(light)) - 1e-3f, logit_);
  const size_t num_candidates = kernels::SelectRange(scores, n, threshold, indices);
  if (num_candidates == 0) return 0;
  for (size_t i = 0; i < num_candidates; ++i) weights[i] = scores[indices[i]];
  kernels::ExpWeights(weights, num_candidates, logit_, max_logit, weights);
  Item* const items = reinterpret_cast<Item*>(weights + (n + 15) / 16 * 16);
  for (size_t i = 0; i < num_candidates; ++i) items[i] = {weights[i], static_cast<uint32_t>(i)};
  const Item last = LastNeeded(items, num_candidates, need);
  size_t count = 0;
  for (uint32_t i = 0; i < num_candidates; ++i) {
    const uint32_t token = indices[i] + static_cast<uint32_t>(middle.begin);
    indices[count] = token;
    count += static_cast<size_t>(!(last < Item{weights[i], i}));
  }
  return count;
}

size_t MassSearch::Refine(const SearchCall&, float, uint32_t*, size_t num_indices, void*) const {
  return num_indices;
}

}  // namespace attndb::index
