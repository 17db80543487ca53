#include "attention/value_remainder.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "attention/call_util.h"
#include "kernels/select.h"

namespace attndb::attention {
namespace {

using kernels::kWeightBlock;
static_assert(kernels::kValueBlock == kWeightBlock);

// The part of a run's block that lies in the middle.
struct BlockPart {
  size_t block = 0;   // Of the run.
  TokenRange tokens;  // Of the call.
};

// Calls f(run, part) for the parts of all blocks of runs with means, in order.
template <typename F>
void ForEachBlock(const ValueRemainderCall& call, const F& f) {
  for (const HeadRun& run : call.runs) {
    if (run.means == nullptr) continue;
    const TokenRange tokens = Intersect(run.tokens, call.middle);
    for (uint64_t begin = tokens.begin; begin < tokens.end;) {
      const size_t block = (begin - run.tokens.begin) / kWeightBlock;
      const uint64_t first = run.tokens.begin + block * kWeightBlock;
      const uint64_t end = std::min<uint64_t>(first + kWeightBlock, tokens.end);
      f(run, BlockPart{block, {begin, end}});
      begin = end;
    }
  }
}

// Runs without means: their tokens by V.
Result<double> FoldExactly(const ValueRemainderCall& call, const kernels::StateRows& state,
                           CallCost* cost) {
  double mass = 0;
  for (const HeadRun& run : call.runs) {
    const TokenRange tokens = Intersect(run.tokens, call.middle);
    if (run.means != nullptr || tokens.begin >= tokens.end) continue;
    const size_t count = kernels::SelectRange(call.scores + tokens.begin, tokens.end - tokens.begin,
                                              -std::numeric_limits<float>::max(), call.tokens);
    for (size_t i = 0; i < count; ++i) {
      call.tokens[i] += static_cast<uint32_t>(tokens.begin);
      call.token_scores[i] = call.scores[call.tokens[i]];
    }
    const double before = state.sum[0];
    const double max = state.max[0];
    ATTNDB_RETURN_IF_ERROR(AttendListed({&run, 1}, {call.tokens, count}, {call.token_scores, count},
                                        call.logit,
                                        /*by_codes=*/false, state, call.rows, cost));
    const double factor = std::exp(max - double{state.max[0]});
    mass = mass * factor + double{state.sum[0]} - before * factor;
  }
  return mass;
}

}  // namespace

Result<double> FoldValueRemainder(const ValueRemainderCall& call, const kernels::StateRows& state,
                                  CallCost* cost) {
  ATTNDB_ASSIGN_OR_RETURN(const double of_values, FoldExactly(call, state, cost));
  const float max = state.max[0];
  double total = 0;
  ForEachBlock(call, [&](const HeadRun& run, const BlockPart& part) {
    float mass = 0;
    kernels::SumWeights(call.scores + part.tokens.begin, part.tokens.end - part.tokens.begin,
                        call.logit, max, &mass);
    total += double{mass};
    if (!(mass > 0)) return;
    kernels::AddValueMean(*run.means, part.block, mass, state.out);
    cost->bytes_touched += run.means->num_elements * sizeof(uint16_t);
  });
  if (!(total > 0)) return of_values + total;
  state.sum[0] += static_cast<float>(total);
  return of_values + total;
}

}  // namespace attndb::attention
