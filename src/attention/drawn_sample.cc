#include "attention/drawn_sample.h"

#include "common/infinity.h"

namespace attndb::attention {

using kernels::DrawnTokens;
using kernels::StateRows;
using kernels::StatesFrom;

DrawnTokens TakeDrawn(uint32_t group, uint64_t num_tokens, Arena* arena) {
  const uint64_t room = num_tokens + kernels::kDrawSlack;
  DrawnTokens drawn;
  drawn.tokens = arena->Take<uint32_t>(room);
  drawn.logits = arena->Take<float>(group * room);
  drawn.stride = room;
  return drawn;
}

// Half of the tokens, and the one that makes an odd number even.
DrawnTokens TakeDrawnHalf(uint32_t group, uint64_t num_tokens, Arena* arena) {
  DrawnTokens drawn = TakeDrawn(group, num_tokens / 2 + 1, arena);
  drawn.margins = arena->Take<float>(drawn.stride);
  return drawn;
}

Status AttendSample(const SampleRead& read, std::initializer_list<const DrawnTokens*> certain,
                    const kernels::DrawnLists& light, const StateRows& states,
                    const StateRows& half_states) {
  const uint32_t group = read.group();
  const auto attend = [&](const DrawnTokens& list, bool by_codes, const StateRows& to) {
    return AttendListed(read.runs, {list.tokens, list.count}, {list.logits, list.stride, group},
                        {1.0f}, by_codes, to, read.rows, read.cost);
  };
  kernels::InitStates(states, group, read.v_padded);
  kernels::InitStates(half_states, 2 * group, read.v_padded);
  for (const DrawnTokens* const list : certain) {
    ATTNDB_RETURN_IF_ERROR(attend(*list, false, states));
  }
  ATTNDB_RETURN_IF_ERROR(attend(light.even, read.light_by_codes, half_states));
  return attend(light.odd, read.light_by_codes, StatesFrom(half_states, group));
}

void MergeHalves(const SampleRead& read, const StateRows& half_states, const StateRows& states) {
  const uint32_t group = read.group();
  kernels::MergeStates(half_states, states, group, read.v_padded);
  kernels::MergeStates(StatesFrom(half_states, group), states, group, read.v_padded);
}

SplitError FindErrorOf(const SampleRead& read, uint32_t head, const StateRows& states,
                       const StateRows& half_states, const float* denominator_logits) {
  const float denominator = denominator_logits == nullptr ? -kInfinity : denominator_logits[head];
  return FindSplitError(StatesFrom(states, head), StatesFrom(half_states, head),
                        StatesFrom(half_states, read.group() + head), denominator, read.v_padded);
}

Status AttendAllFor(const SampleRead& read, uint32_t first, uint32_t end, const StateRows& states) {
  const StateRows rows = StatesFrom(states, first);
  kernels::InitStates(rows, end - first, read.v_padded);
  return AttendAll(read.runs, read.num_tokens,
                   {read.q.q + first * read.q.stride, read.q.stride, end - first}, read.logit, rows,
                   read.rows, read.cost);
}

}  // namespace attndb::attention
