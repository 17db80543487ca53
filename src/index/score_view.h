// The scores of one q row over all visible tokens, with their summary by blocks. Searches and the
// estimate of the remainder read them.
//
// Units:   scores are inner products q.k, unscaled, in token order from token 0.
// Threads: a view. Code that changes a score calls MarkChanged.
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
  // kernels::SummarizeScores of all scores, as they were first. Sums may be null: then masses come
  // from the scores. A negative sum tells that a score of its block has changed since.
  float* maxima = nullptr;
  float* sums = nullptr;

  void MarkChanged(uint32_t token) const {
    if (sums != nullptr) sums[token / kernels::kWeightBlock] = -1.0f;
  }
  // Takes these tokens out of the view: their scores become -inf. REQUIRES: they ascend.
  void Hide(std::span<const uint32_t> tokens) const;
  // The largest score; NaN if one is NaN.
  float Max() const;
};

// The first block, and the number of blocks, that hold tokens of the range.
constexpr size_t FirstBlock(TokenRange range) { return range.begin / kernels::kWeightBlock; }
constexpr size_t NumBlocks(TokenRange range) {
  return range.begin == range.end ? 0 : kernels::NumWeightBlocks(range.end) - FirstBlock(range);
}

// masses[i]: sum of exp(logit - max) over the range's tokens in block FirstBlock + i. Returns the
// sum of all; NaN if a score is NaN.
double WeighRange(const ScoreView& view, TokenRange range, const kernels::LogitSpec& logit,
                  float max, float* masses);

// Like kernels::SelectRange over the tokens of the range; indices are tokens. REQUIRES: no score of
// the range was raised after the summary; room for the range, a block and kernels::kSelectSlack.
size_t SelectTokens(const ScoreView& view, TokenRange range, float threshold, uint32_t* indices);

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_SCORE_VIEW_H_
