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
  size_t block = 0;   // Number of the block in the run.
  TokenRange tokens;  // Tokens of the block that the call sees, in tokens of the call.
};

// The tokens for which means of blocks stand, of `tokens` of a run. The mean of a block that the
// call does not see whole is of hidden values, too, so its tokens are not among them.
TokenRange TokensByMeans(const HeadRun& run, TokenRange tokens) {
  const TokenRange none = {tokens.begin, tokens.begin};
  const uint64_t first_block = (run.RowOf(run.tokens.begin) + kWeightBlock - 1) / kWeightBlock;
  const uint64_t end_block = run.RowOf(run.tokens.end) / kWeightBlock;
  if (run.means == nullptr || first_block >= end_block) return none;
  const TokenRange by_means = Intersect(
      tokens, {run.origin + first_block * kWeightBlock, run.origin + end_block * kWeightBlock});
  return by_means.begin < by_means.end ? by_means : none;
}

// Calls f(run, part) for the parts of all blocks for which means stand, in order.
template <typename F>
void ForEachBlock(const ValueRemainderCall& call, const F& f) {
  for (const HeadRun& run : call.runs) {
    const TokenRange tokens = TokensByMeans(run, Intersect(run.tokens, call.middle));
    for (uint64_t begin = tokens.begin; begin < tokens.end;) {
      const size_t block = run.RowOf(begin) / kWeightBlock;
      const uint64_t block_end = run.origin + (block + 1) * kWeightBlock;
      const uint64_t end = std::min<uint64_t>(block_end, tokens.end);
      f(run, BlockPart{block, {begin, end}});
      begin = end;
    }
  }
}

// Tokens of a run by V. Adds their weight to `mass`, which is over exp(the state's max).
Status FoldTokens(const ValueRemainderCall& call, const HeadRun& run, TokenRange tokens,
                  const kernels::StateRows& state, CallCost* cost, double* mass) {
  if (tokens.begin >= tokens.end) return Status::Ok();
  const size_t count = kernels::SelectRange(call.scores + tokens.begin, tokens.end - tokens.begin,
                                            -std::numeric_limits<float>::max(), call.tokens);
  for (size_t i = 0; i < count; ++i) {
    call.tokens[i] += static_cast<uint32_t>(tokens.begin);
    call.token_scores[i] = call.scores[call.tokens[i]];
  }
  const double before = state.sum[0];
  const double max = state.max[0];
  ATTNDB_RETURN_IF_ERROR(AttendListed({&run, 1}, {call.tokens, count}, {call.token_scores, count},
                                      call.logit, /*by_codes=*/false, state, call.rows, cost));
  const double factor = std::exp(max - double{state.max[0]});
  *mass = *mass * factor + double{state.sum[0]} - before * factor;
  return Status::Ok();
}

// Tokens for which no means stand.
Result<double> FoldExactly(const ValueRemainderCall& call, const kernels::StateRows& state,
                           CallCost* cost) {
  double mass = 0;
  for (const HeadRun& run : call.runs) {
    const TokenRange tokens = Intersect(run.tokens, call.middle);
    const TokenRange by_means = TokensByMeans(run, tokens);
    ATTNDB_RETURN_IF_ERROR(
        FoldTokens(call, run, {tokens.begin, by_means.begin}, state, cost, &mass));
    ATTNDB_RETURN_IF_ERROR(FoldTokens(call, run, {by_means.end, tokens.end}, state, cost, &mass));
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
