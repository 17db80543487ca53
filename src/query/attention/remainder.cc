#include "query/attention/remainder.h"

#include <algorithm>
#include <numeric>

#include "kernels/weights.h"

namespace attndb::query {

using kernels::kWeightBlock;

RemainderSample SampleRemainder(const RemainderCall& call, uint32_t* indices) {
  const size_t num_blocks = kernels::NumWeightBlocks(call.num_scores);
  kernels::SumWeights(call.scores, call.num_scores, call.logit, call.max, call.sums);
  RemainderSample sample;
  sample.mass = std::accumulate(call.sums, call.sums + num_blocks, 0.0);
  if (!(sample.mass > 0)) return sample;
  const double share = sample.mass / call.num_samples;
  double point = call.offset * share;
  double block_begin = 0;
  uint32_t last = 0;  // The last token of any weight: takes what rounding leaves over.
  for (size_t b = 0; b < num_blocks && sample.num_drawn < call.num_samples; ++b) {
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
        while (point < end && sample.num_drawn < call.num_samples) {
          indices[sample.num_drawn++] = last;
          point += share;
        }
      }
    }
    block_begin = block_end;
  }
  while (sample.num_drawn < call.num_samples) indices[sample.num_drawn++] = last;
  return sample;
}

}  // namespace attndb::query
