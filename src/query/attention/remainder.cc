#include "query/attention/remainder.h"

#include <algorithm>
#include <numeric>

#include "kernels/weights.h"

namespace attndb::query {

using kernels::kWeightBlock;

double RemainderMass(const RemainderCall& call) {
  kernels::SumWeights(call.scores, call.num_scores, call.logit, call.max, call.sums);
  return std::accumulate(call.sums, call.sums + kernels::NumWeightBlocks(call.num_scores), 0.0);
}

void DrawRemainder(const RemainderCall& call, const RemainderDraw& draw, uint32_t* indices) {
  const size_t num_blocks = kernels::NumWeightBlocks(call.num_scores);
  const double share = draw.mass / draw.num_samples;
  double point = draw.offset * share;
  double block_begin = 0;
  uint32_t last = 0;  // The last token of any weight: takes what rounding leaves over.
  size_t num_drawn = 0;
  for (size_t b = 0; b < num_blocks && num_drawn < draw.num_samples; ++b) {
    const double block_end = block_begin + double{call.sums[b]};
    if (point < block_end) {
      const size_t first = b * kWeightBlock;
      const size_t count = std::min(kWeightBlock, call.num_scores - first);
      kernels::ExpWeights(call.scores + first, count, call.logit, call.max, call.weights);
      double end = block_begin;
      for (size_t i = 0; i < count; ++i) {
        if (call.weights[i] == 0) continue;
        end += double{call.weights[i]};
        last = static_cast<uint32_t>(first + i);
        for (; point < end && num_drawn < draw.num_samples; point += share) {
          indices[num_drawn++] = last;
        }
      }
    }
    block_begin = block_end;
  }
  while (num_drawn < draw.num_samples) indices[num_drawn++] = last;
}

}  // namespace attndb::query
