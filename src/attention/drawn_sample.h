// A sample that the q heads of a group have drawn: room for it, attention over it with either half
// of what was left to chance apart, and reading all instead. Draws by planes (group_draw.h) and by
// codes (phased_draw.h) differ in how they come to their samples.
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

// Reading more than this share of the rows here and there costs more than a stream of all.
inline constexpr double kMostShareOfRows = 0.5;

// Room for so many tokens.
kernels::DrawnTokens TakeDrawn(uint32_t group, uint64_t num_tokens, Arena* arena);
// Takes room for half of so many tokens, as two halves take tokens by turns, with the logs of the
// probabilities by which they were drawn.
kernels::DrawnTokens TakeDrawnHalf(uint32_t group, uint64_t num_tokens, Arena* arena);

// What a group reads by.
struct SampleRead {
  std::span<const HeadRun> runs;  // All tokens, in order.
  uint64_t num_tokens = 0;        // Visible.
  GroupQueries q;                 // The group's.
  kernels::LogitSpec logit;
  size_t v_padded = 0;
  bool light_by_codes = false;  // Values of light tokens are read from codes, where there are some.
  storage::RowLease* rows = nullptr;
  CallCost* cost = nullptr;

  uint32_t group() const { return static_cast<uint32_t>(q.count); }
};

// Attends to the certain lists in `states`, and to even and odd light ones in `half_states`
// [2 * group], the even ones first: MergeHalves puts them together.
Status AttendSample(const SampleRead& read,
                    std::initializer_list<const kernels::DrawnTokens*> certain,
                    const kernels::DrawnLists& light, const kernels::StateRows& states,
                    const kernels::StateRows& half_states);
void MergeHalves(const SampleRead& read, const kernels::StateRows& half_states,
                 const kernels::StateRows& states);

// The error of one head, between AttendSample and MergeHalves. denominator_logits [group] or null.
SplitError FindErrorOf(const SampleRead& read, uint32_t head, const kernels::StateRows& states,
                       const kernels::StateRows& half_states, const float* denominator_logits);

// The states of heads [first, end) from all tokens.
Status AttendAllFor(const SampleRead& read, uint32_t first, uint32_t end,
                    const kernels::StateRows& states);

// The states of heads that read all, in one pass over all of these: heads between them do so, too.
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
