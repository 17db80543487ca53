#include "index/score_view.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "common/check.h"
#include "kernels/select.h"

namespace attndb::index {

using kernels::kWeightBlock;

float ScoreView::Max() const {
  return kernels::MaxScore(maxima, kernels::NumWeightBlocks(num_tokens));
}

void ScoreView::Hide(std::span<const uint32_t> tokens) const {
  for (size_t i = 0; i < tokens.size(); ++i) {
    scores[tokens[i]] = -std::numeric_limits<float>::infinity();
    const size_t block = tokens[i] / kWeightBlock;
    if (i + 1 < tokens.size() && tokens[i + 1] / kWeightBlock == block) continue;
    MarkChanged(tokens[i]);
    const size_t begin = block * kWeightBlock;
    maxima[block] = kernels::MaxScore(scores + begin, std::min(kWeightBlock, num_tokens - begin));
  }
}

double WeighRange(const ScoreView& view, TokenRange range, const kernels::LogitSpec& logit,
                  float max, float* masses) {
  ATTNDB_CHECK(range.begin <= range.end && range.end <= view.num_tokens);
  const size_t first = FirstBlock(range);
  const size_t num_blocks = NumBlocks(range);
  if (view.sums != nullptr) {
    kernels::WeighBlocks(view.maxima + first, view.sums + first, num_blocks, logit, max, masses);
  }
  for (size_t i = 0; i < num_blocks; ++i) {
    const size_t block_begin = (first + i) * kWeightBlock;
    const size_t block_end = std::min(block_begin + kWeightBlock, view.num_tokens);
    const size_t begin = std::max<size_t>(block_begin, range.begin);
    const size_t end = std::min<size_t>(block_end, range.end);
    const bool whole = begin == block_begin && end == block_end;
    if (whole && view.sums != nullptr && !(view.sums[first + i] < 0)) continue;
    kernels::SumWeights(view.scores + begin, end - begin, logit, max, masses + i);
  }
  return std::accumulate(masses, masses + num_blocks, 0.0);
}

size_t SelectTokens(const ScoreView& view, TokenRange range, float threshold, uint32_t* indices) {
  ATTNDB_CHECK(range.begin <= range.end && range.end <= view.num_tokens);
  const size_t first = FirstBlock(range);
  const size_t offset = first * kWeightBlock;
  const size_t found = kernels::SelectFromBlocks(view.scores + offset, range.end - offset,
                                                 view.maxima + first, threshold, indices);
  const uint32_t before = static_cast<uint32_t>(range.begin - offset);  // In the first block.
  const auto skipped =
      static_cast<size_t>(std::lower_bound(indices, indices + found, before) - indices);
  for (size_t i = skipped; i < found; ++i) {
    indices[i - skipped] = indices[i] + static_cast<uint32_t>(offset);
  }
  return found - skipped;
}

}  // namespace attndb::index
