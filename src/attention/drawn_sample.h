// The sample that the q heads of a group have drawn: its memory, attention over it that keeps the
// two halves of the light tokens apart, and attention over all tokens instead. Draws by planes
// (group_draw.h) and by codes (phased_draw.h) use it.
//
// Errors:  those of reads.
// Memory:  scratch is the caller's; nothing is allocated.
// Threads: stateless.
#ifndef ATTNDB_ATTENTION_DRAWN_SAMPLE_H_
#define ATTNDB_ATTENTION_DRAWN_SAMPLE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

#include "attention/arena.h"
#include "attention/call_cost.h"
#include "attention/listed_tokens.h"
#include "attention/split_error.h"
#include "attndb/status.h"
#include "kernels/attention_state.h"
#include "kernels/draw.h"

namespace attndb::attention {

// Reading more than this share of the rows at random places costs more than streaming all rows.
inline constexpr double kMostShareOfRows = 0.5;

// Memory for num_tokens drawn tokens.
kernels::DrawnTokens TakeDrawn(uint32_t group, uint64_t num_tokens, Arena* arena);
// Memory for half of num_tokens, since two halves take tokens by turns, and for the logs of the
// probabilities by which they were drawn.
kernels::DrawnTokens TakeDrawnHalf(uint32_t group, uint64_t num_tokens, Arena* arena);

// How a group reads tokens.
struct SampleRead {
  std::span<const HeadRun> runs;  // Runs with all tokens, in order.
  uint64_t num_tokens = 0;        // Visible tokens.
  GroupQueries q;                 // Queries of the group.
  kernels::LogitSpec logit;
  size_t v_padded = 0;
  // Whether values of light tokens are read from value planes, where there are some.
  bool light_by_codes = false;
  storage::RowLease* rows = nullptr;
  CallCost* cost = nullptr;

  uint32_t group() const { return static_cast<uint32_t>(q.count); }
};

// Attends to the certain lists in `states`, and to the even and odd light tokens in `half_states`
// [2 * group], even ones first; MergeHalves puts these together.
Status AttendSample(const SampleRead& read,
                    std::initializer_list<const kernels::DrawnTokens*> certain,
                    const kernels::DrawnLists& light, const kernels::StateRows& states,
                    const kernels::StateRows& half_states);
void MergeHalves(const SampleRead& read, const kernels::StateRows& half_states,
                 const kernels::StateRows& states);

// Estimates the error of one head, between AttendSample and MergeHalves. denominator_logits [group]
// or null.
SplitError FindErrorOf(const SampleRead& read, uint32_t head, const kernels::StateRows& states,
                       const kernels::StateRows& half_states, const float* denominator_logits);

// Writes the states of heads [first, end), attending to all tokens.
Status AttendAllFor(const SampleRead& read, uint32_t first, uint32_t end,
                    const kernels::StateRows& states);

// Attends to all tokens for the heads with reads_all set, in one pass; heads between them are set,
// too.
template <typename Head>
Status ReadAllMarked(const SampleRead& read, Head* heads, const kernels::StateRows& states) {
  const auto reads_all = [](const Head& head) { return head.reads_all; };
  Head* const end = heads + read.group();
  Head* const first = std::find_if(heads, end, reads_all);
  if (first == end) return Status::Ok();
  Head* last = end - 1;
  while (!reads_all(*last)) --last;
  for (Head* head = first; head != last; ++head) head->reads_all = true;
  return AttendAllFor(read, static_cast<uint32_t>(first - heads),
                      static_cast<uint32_t>(last + 1 - heads), states);
}

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_DRAWN_SAMPLE_H_
