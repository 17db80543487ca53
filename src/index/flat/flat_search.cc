#include "index/flat/flat_search.h"

#include <algorithm>

#include "common/check.h"
#include "kernels/select.h"

namespace attndb::index {
namespace {

// Candidates lie within this many standard deviations of the last critical token's score: an error
// beyond it is one in 700 on each side.
constexpr float kErrorsKept = 3.0f;

// Candidates of a top-k at most, over k: what a head of nearly equal scores would ask for is the
// whole middle, and exact scores of all that cost more than they bring.
constexpr size_t kCandidatesPerK = 4;

float Margin(const SearchCall& call) { return kErrorsKept * call.score_error + call.score_shift; }

const float* MiddleScores(const SearchCall& call) { return call.scores + call.middle.begin; }

size_t NumMiddle(const SearchCall& call) {
  ATTNDB_CHECK(call.middle.begin <= call.middle.end && call.middle.end <= call.num_visible);
  return call.middle.end - call.middle.begin;
}

// Room for so many indices and what a selection may write past them, in whole lines of the cache.
size_t PaddedCount(size_t num_indices) {
  return (num_indices + kernels::kSelectSlack + 15) / 16 * 16;
}

size_t ShiftIndices(size_t num_indices, uint64_t by, uint32_t* indices) {
  for (size_t i = 0; i < num_indices; ++i) indices[i] += static_cast<uint32_t>(by);
  return num_indices;
}

}  // namespace

size_t FlatTopK::ScratchBytes(size_t num_visible) const {
  return kernels::SelectTopKScratchBytes(num_visible) +
         PaddedCount(num_visible) * (sizeof(float) + sizeof(uint32_t));
}

size_t FlatTopK::Search(const SearchCall& call, uint32_t* indices, void* scratch) const {
  const size_t n = NumMiddle(call);
  const float* const scores = MiddleScores(call);
  size_t count = kernels::SelectTopK(scores, n, k_, indices, scratch);
  if (call.score_error > 0 && count < n) {
    // All that may beat the k-th: an error on either side.
    float last = scores[indices[0]];
    for (size_t i = 1; i < count; ++i) last = std::min(last, scores[indices[i]]);
    const float threshold = last - Margin(call);
    count = kernels::SelectRange(scores, n, threshold, indices);
    if (count > kCandidatesPerK * size_t{k_}) {
      count = kernels::SelectTopK(scores, n, kCandidatesPerK * size_t{k_}, indices, scratch);
    }
  }
  return ShiftIndices(count, call.middle.begin, indices);
}

size_t FlatTopK::Refine(const SearchCall& call, float, uint32_t* indices, size_t num_indices,
                        void* scratch) const {
  if (num_indices <= k_) return num_indices;
  float* const scores = static_cast<float*>(scratch);
  uint32_t* const kept = reinterpret_cast<uint32_t*>(scores + PaddedCount(num_indices));
  for (size_t i = 0; i < num_indices; ++i) scores[i] = call.scores[indices[i]];
  const size_t count =
      kernels::SelectTopK(scores, num_indices, k_, kept, kept + PaddedCount(num_indices));
  for (size_t i = 0; i < count; ++i) indices[i] = indices[kept[i]];
  return count;
}

size_t FlatDipr::ScratchBytes(size_t) const { return 0; }

size_t FlatDipr::Search(const SearchCall& call, uint32_t* indices, void*) const {
  const size_t n = NumMiddle(call);
  const float threshold = kernels::MaxScore(call.scores, call.num_visible) - beta_ - Margin(call);
  return ShiftIndices(kernels::SelectRange(MiddleScores(call), n, threshold, indices),
                      call.middle.begin, indices);
}

size_t FlatDipr::Refine(const SearchCall& call, float max, uint32_t* indices, size_t num_indices,
                        void*) const {
  size_t count = 0;
  for (size_t i = 0; i < num_indices; ++i) {
    const uint32_t token = indices[i];
    indices[count] = token;
    count += static_cast<size_t>(!(call.scores[token] < max - beta_));
  }
  return count;
}

}  // namespace attndb::index
