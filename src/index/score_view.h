// The scores of one q row over all tokens that it sees, and their summary by blocks: what searches
// and the estimate of the remainder read.
//
// Units:   scores are inner products q.k, unscaled, in token order from token 0.
// Threads: a view; who writes scores says so by MarkChanged.
#ifndef ATTNDB_INDEX_SCORE_VIEW_H_
#define ATTNDB_INDEX_SCORE_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "attndb/types.h"
#include "kernels/score_blocks.h"

namespace attndb::index {

struct ScoreView {
  float* scores = nullptr;
  size_t num_tokens = 0;
  // kernels::SummarizeScores of all of them, when they were new. Sums may be null: then masses come
  // from the scores. A negative sum says that a score of its block has changed since.
  float* maxima = nullptr;
  float* sums = nullptr;

  void MarkChanged(uint32_t token) const {
    if (sums != nullptr) sums[token / kernels::kWeightBlock] = -1.0f;
  }
  // Makes them no tokens of the view: they weigh nothing. REQUIRES: they ascend.
  void Hide(std::span<const uint32_t> tokens) const;
  // The largest score; NaN if one is.
  float Max() const;
};

// Blocks that hold tokens of the range, and the first of them.
constexpr size_t FirstBlock(TokenRange range) { return range.begin / kernels::kWeightBlock; }
constexpr size_t NumBlocks(TokenRange range) {
  return range.begin == range.end ? 0 : kernels::NumWeightBlocks(range.end) - FirstBlock(range);
}

// masses[i]: the sum of exp(logit - max) over the tokens of the range in block FirstBlock + i.
// Returns the sum of them; NaN if a score is NaN.
double WeighRange(const ScoreView& view, TokenRange range, const kernels::LogitSpec& logit,
                  float max, float* masses);

// As kernels::SelectRange over the tokens of the range; indices are tokens. REQUIRES: no score of
// the range was changed to a larger one; room for the range, a block and kernels::kSelectSlack.
size_t SelectTokens(const ScoreView& view, TokenRange range, float threshold, uint32_t* indices);

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_SCORE_VIEW_H_
