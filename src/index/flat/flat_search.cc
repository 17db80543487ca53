#include "index/flat/flat_search.h"

#include <algorithm>
#include <limits>

#include "kernels/select.h"

namespace attndb::index {
namespace {

// Candidates lie within this many standard deviations of the last critical token's score: an error
// beyond it is one in 700 on each side.
constexpr float kErrorsKept = 3.0f;

// The most candidates of a top-k, as a multiple of k. A head of nearly equal scores would ask for
// the whole middle, whose exact scores cost more than they gain.
constexpr size_t kCandidatesPerK = 4;

float Margin(const SearchCall& call) { return kErrorsKept * call.score_error + call.score_shift; }

// Room for num_indices and the slack that a selection may write, in whole cache lines.
size_t PaddedCount(size_t num_indices) {
  return (num_indices + kernels::kSelectSlack + 15) / 16 * 16;
}

float Least(const float* scores, const uint32_t* indices, size_t num_indices) {
  float least = std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < num_indices; ++i) least = std::min(least, scores[indices[i]]);
  return least;
}

// A score that at least k middle tokens are not below: the k-th largest maximum of blocks that lie
// in the middle. -inf where these are too few to tell much.
float LowerBound(const SearchCall& call, size_t k, void* scratch) {
  const size_t first = kernels::NumWeightBlocks(call.middle.begin);
  const size_t end = call.middle.end / kernels::kWeightBlock;
  if (end < first + 2 * k) return -std::numeric_limits<float>::infinity();
  const float* const maxima = call.view.maxima + first;
  uint32_t* const blocks = static_cast<uint32_t*>(scratch);
  const size_t count =
      kernels::SelectTopK(maxima, end - first, k, blocks, blocks + PaddedCount(end - first));
  return Least(maxima, blocks, count);
}

// Keeps the k listed tokens of largest score.
size_t KeepTopK(const float* scores, size_t k, uint32_t* indices, size_t num_indices,
                void* scratch) {
  if (num_indices <= k) return num_indices;
  float* const listed = static_cast<float*>(scratch);
  uint32_t* const kept = reinterpret_cast<uint32_t*>(listed + PaddedCount(num_indices));
  for (size_t i = 0; i < num_indices; ++i) listed[i] = scores[indices[i]];
  const size_t count =
      kernels::SelectTopK(listed, num_indices, k, kept, kept + PaddedCount(num_indices));
  for (size_t i = 0; i < count; ++i) indices[i] = indices[kept[i]];
  return count;
}

// Selects all middle tokens with a score at least the k-th largest minus `margin`, and perhaps some
// with lower scores.
size_t SelectNearTopK(const SearchCall& call, size_t k, float margin, uint32_t* indices,
                      void* scratch) {
  const size_t first = call.middle.begin;
  const size_t n = call.middle.end - first;
  const float bound = LowerBound(call, k, scratch);
  if (bound > -std::numeric_limits<float>::infinity()) {
    return SelectTokens(call.view, call.middle, bound - margin, indices);
  }
  const float* const scores = call.view.scores + first;
  size_t count = kernels::SelectTopK(scores, n, k, indices, scratch);
  if (margin > 0 && count < n) {
    count = kernels::SelectRange(scores, n, Least(scores, indices, count) - margin, indices);
  }
  for (size_t i = 0; i < count; ++i) indices[i] += static_cast<uint32_t>(first);
  return count;
}

}  // namespace

size_t FlatTopK::ScratchBytes(size_t num_visible) const {
  return kernels::SelectTopKScratchBytes(num_visible) +
         PaddedCount(num_visible) * (sizeof(float) + sizeof(uint32_t));
}

uint32_t FlatTopK::K(const SearchCall& call) const {
  if (ratio_ == 0) return k_;
  const uint64_t num_tokens = call.view.num_tokens;
  const uint64_t num_fixed = num_tokens - (call.middle.end - call.middle.begin);
  return CountOfRatio(ratio_, num_tokens, num_fixed + num_static_);
}

size_t FlatTopK::Search(const SearchCall& call, uint32_t* indices, void* scratch) const {
  const uint32_t k = K(call);
  const bool exact = call.score_error == 0;
  const float margin = exact ? 0.0f : Margin(call);  // An error on either side.
  const size_t count = SelectNearTopK(call, k, margin, indices, scratch);
  const size_t most = exact ? k : kCandidatesPerK * size_t{k};
  return KeepTopK(call.view.scores, most, indices, count, scratch);
}

size_t FlatTopK::Refine(const SearchCall& call, float, uint32_t* indices, size_t num_indices,
                        void* scratch) const {
  return KeepTopK(call.view.scores, K(call), indices, num_indices, scratch);
}

size_t FlatDipr::ScratchBytes(size_t) const { return 0; }

size_t FlatDipr::Search(const SearchCall& call, uint32_t* indices, void*) const {
  // A NaN of the view stays one.
  const float max = call.view.Max() < call.hidden_max ? call.hidden_max : call.view.Max();
  return SelectTokens(call.view, call.middle, max - beta_ - Margin(call), indices);
}

size_t FlatDipr::Refine(const SearchCall& call, float max, uint32_t* indices, size_t num_indices,
                        void*) const {
  size_t count = 0;
  for (size_t i = 0; i < num_indices; ++i) {
    const uint32_t token = indices[i];
    indices[count] = token;
    count += static_cast<size_t>(!(call.view.scores[token] < max - beta_));
  }
  return count;
}

}  // namespace attndb::index
