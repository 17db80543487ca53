#include "attention/group_draw.h"

#include <algorithm>
#include <cmath>

#include "attention/split_error.h"
#include "attention/threshold_sample.h"
#include "common/clock.h"
#include "common/infinity.h"
#include "kernels/draw.h"
#include "kernels/weights.h"

namespace attndb::attention {

using kernels::StateRows;

namespace {

// A draw that can't be made larger may be off by so much more before all is read.
constexpr double kLastTolerance = 2;

// A token above this many thresholds of a head is scored exactly. For lighter tokens, errors of
// estimates are smaller than the error of drawing.
constexpr float kExactFrom = 3;

// The error falls faster than by the square root of the rows, because more of the mass is then
// certain: on SmolLM2's heads about as one over the rows.
double MoreRows(double rows, double found_over_tolerated) {
  return rows * std::max(1.5, 1.3 * found_over_tolerated);
}

}  // namespace

GroupScratch GroupScratch::Take(uint32_t group, uint64_t num_tokens, size_t v_padded,
                                Arena* arena) {
  GroupScratch scratch;
  scratch.heads = arena->Take<HeadDraw>(group);
  scratch.thresholds = arena->Take<float>(group);
  scratch.sample = arena->Take<float>(group * kSampled);
  scratch.margins = arena->Take<float>(num_tokens);
  scratch.lists.certain = TakeDrawn(group, num_tokens, arena);
  scratch.lists.heavy = TakeDrawn(group, num_tokens, arena);
  scratch.lists.even = TakeDrawnHalf(group, num_tokens, arena);
  scratch.lists.odd = TakeDrawnHalf(group, num_tokens, arena);
  scratch.half_states = TakeStates(2 * group, v_padded, arena);
  return scratch;
}

GroupDraw::GroupDraw(const GroupCall& call, GroupScratch* scratch, CallCost* cost)
    : call_(call),
      scratch_(*scratch),
      cost_(cost),
      v_padded_(kernels::RowElements(call.spec->v_head_dim)) {
  for (uint32_t head = 0; head < group(); ++head) {
    const float* const q = call.q.q + head * call.q.stride;
    score_error_ = std::max(score_error_, LargestScoreError(call.runs, call.plan->bits, q));
  }
}

// Samples logits of kept middle tokens, each minus the log of its probability of being kept. These
// weights tell the draw of any higher threshold. Returns the number of kept tokens that each
// sampled one represents.
double GroupDraw::SampleKept(size_t* num_sampled) {
  size_t num_kept = 0;
  for (const DrawSlice& slice : call_.slices) num_kept += slice.kept.count;
  const size_t stride = num_kept / GroupScratch::kSampled + 1;
  size_t count = 0;
  size_t skipped = 0;  // Tokens of the next slice before its first one.
  for (const DrawSlice& slice : call_.slices) {
    const TokenRange middle = slice.middle;
    const size_t first = middle.begin + skipped;
    const size_t num = first < middle.end ? (middle.end - first + stride - 1) / stride : 0;
    skipped = first + num * stride - middle.end;
    for (uint32_t head = 0; head < group(); ++head) {
      const float* const from = slice.kept.scores + head * slice.kept.stride + first;
      float* const to = scratch_.sample + head * GroupScratch::kSampled + count;
      for (size_t i = 0; i < num; ++i) to[i] = from[i * stride];
    }
    kernels::FindMargins({logit(), call_.thresholds}, scratch_.sample + count,
                         GroupScratch::kSampled, group(), num, scratch_.margins);
    for (uint32_t head = 0; head < group(); ++head) {
      float* const logits = scratch_.sample + head * GroupScratch::kSampled + count;
      kernels::ToLogits(logits, num, logit(), logits);
      for (size_t i = 0; i < num; ++i) logits[i] -= std::min(scratch_.margins[i], 0.0f);
    }
    count += num;
  }
  *num_sampled = count;
  return static_cast<double>(stride);
}

// No threshold is lower than the one of the kept tokens.
void GroupDraw::ChooseThresholds() {
  size_t num_sampled = 0;
  const double share = SampleKept(&num_sampled);
  for (uint32_t head = 0; head < group(); ++head) {
    const float least = call_.thresholds[head];
    float* const sample = scratch_.sample + head * GroupScratch::kSampled;
    const float wanted =
        FindThresholdOfScores(sample, num_sampled, {1.0f}, share, scratch_.heads[head].rows);
    scratch_.thresholds[head] = std::max(least, wanted);
    HeadDraw& draw = scratch_.heads[head];
    draw.rows = std::min(draw.rows, kKept * call_.budget.first_rows);
    draw.can_grow = wanted > least && draw.rows < kKept * call_.budget.first_rows;
  }
}

// Sinks and window are certain, and their scores exact.
void GroupDraw::TakeFixed(const DrawSlice& slice, size_t begin, size_t end) {
  Drawn& to = scratch_.lists.certain;
  const size_t count = end - begin;
  std::copy_n(slice.kept.tokens + begin, count, to.tokens + to.count);
  for (uint32_t head = 0; head < group(); ++head) {
    const float* const scores = slice.kept.scores + head * slice.kept.stride + begin;
    float* const logits = to.logits + head * to.stride + to.count;
    if (to.are_scores) {
      std::copy_n(scores, count, logits);
    } else {
      kernels::ToLogits(scores, count, logit(), logits);
    }
  }
  to.count += count;
}

// Scores are to be made exact of heavy tokens, and of all where errors do not even out.
void GroupDraw::Draw() {
  kernels::DrawnLists& lists = scratch_.lists;
  const bool all_exact = score_error_ != 0 && !ErrorsEvenOut(score_error_, call_.spec->scale);
  for (Drawn* const list : {&lists.certain, &lists.heavy, &lists.even, &lists.odd}) {
    list->count = 0;
    list->are_scores = all_exact || list == &lists.heavy;
  }
  const kernels::DrawRule rule = {logit(), scratch_.thresholds};
  const float heavy_margin = score_error_ == 0 ? kInfinity : std::log(kExactFrom);
  for (const DrawSlice& slice : call_.slices) {
    const TokenRange middle = slice.middle;
    TakeFixed(slice, 0, middle.begin);
    kernels::PartDrawn(rule, slice.kept, middle.begin, middle.end, group(), heavy_margin, &lists);
    TakeFixed(slice, middle.end, slice.kept.count);
  }
}

// Makes scores exact where needed. The weight of a light token compensates for its probability,
// whichever weight gave the probability.
Status GroupDraw::ScoreDrawn() {
  kernels::DrawnLists& lists = scratch_.lists;
  for (Drawn* const list : {&lists.certain, &lists.heavy, &lists.even, &lists.odd}) {
    if (!list->are_scores) continue;
    ATTNDB_RETURN_IF_ERROR(ScoreListed(call_.runs, {list->tokens, list->count}, call_.q,
                                       {list->logits, list->stride}, call_.rows, cost_));
    list->are_scores = false;
    const bool light = list == &lists.even || list == &lists.odd;
    for (uint32_t head = 0; head < group(); ++head) {
      float* const logits = list->logits + head * list->stride;
      kernels::ToLogits(logits, list->count, logit(), logits);
      for (size_t i = 0; light && i < list->count; ++i) logits[i] -= list->margins[i];
    }
  }
  return Status::Ok();
}

// Errors of light tokens' value codes average out: each token weighs less than a threshold.
SampleRead GroupDraw::read() const {
  return {.runs = call_.runs,
          .num_tokens = call_.num_tokens,
          .q = {call_.q.q, call_.q.stride, group()},
          .logit = logit(),
          .v_padded = v_padded_,
          .light_by_codes = call_.plan->value_bits != 0,
          .rows = call_.rows,
          .cost = cost_};
}

Status GroupDraw::AttendDrawn(const StateRows& states) {
  const kernels::DrawnLists& lists = scratch_.lists;
  ATTNDB_RETURN_IF_ERROR(
      AttendSample(read(), {&lists.certain, &lists.heavy}, lists, states, scratch_.half_states));
  FindErrors(states);
  MergeHalves(read(), scratch_.half_states, states);
  return Status::Ok();
}

// states: of certain tokens. A denominator makes weights and outputs shorter alike, so that it is
// left out of a mass.
void GroupDraw::FindErrors(const StateRows& states) {
  const Drawn& even = scratch_.lists.even;
  const Drawn& odd = scratch_.lists.odd;
  const bool any_light = even.count + odd.count > 0;
  const double share_of_chance = any_light ? ShareOfChance(even, odd, scratch_.margins) : 0;
  for (uint32_t i = 0; i < group(); ++i) {
    HeadDraw& head = scratch_.heads[i];
    head.mass_left = 0;
    if (any_light) {
      const SplitError found =
          FindErrorOf(read(), i, states, scratch_.half_states, call_.denominator_logits);
      head.error = found.error * std::sqrt(share_of_chance);
      head.mass_left = found.mass_left;
      continue;
    }
    // The error as if one token were left out, as far off as the output is long.
    const double mass =
        double{states.sum[i]} * std::exp(double{states.max[i]} - double{scratch_.thresholds[i]});
    head.error = mass > 0 ? 1.0 / mass : 0.0;
  }
}

// Decides for the open heads: draw again, with more rows, or read all tokens instead. Returns
// whether any head draws again. A head that is good enough stays so.
bool GroupDraw::WantsMore() {
  const auto num_middle = static_cast<double>(call_.middle.end - call_.middle.begin);
  bool wants_more = false;
  for (uint32_t i = 0; i < group(); ++i) {
    HeadDraw& head = scratch_.heads[i];
    if (!head.open) continue;
    head.difficulty = head.error * head.rows;
    const double tolerated = (head.can_grow ? 1.0 : kLastTolerance) * call_.budget.tolerated_error;
    head.open = head.error > tolerated;
    if (!head.open) continue;
    head.rows = MoreRows(head.rows, head.error / tolerated);
    head.reads_all = !head.can_grow || head.rows >= kMostShareOfRows * num_middle;
    head.open = !head.reads_all;
    wants_more = wants_more || head.open;
  }
  return wants_more;
}

void GroupDraw::Book() {
  const uint64_t num_middle = call_.middle.end - call_.middle.begin;
  const size_t num_certain = scratch_.lists.certain.count + scratch_.lists.heavy.count;
  const uint64_t num_fixed = call_.num_tokens - num_middle;
  cost_->num_queries += group();
  for (uint32_t i = 0; i < group(); ++i) {
    const HeadDraw& head = scratch_.heads[i];
    cost_->num_selected += head.reads_all ? num_middle : num_certain - num_fixed;
    cost_->AddDraw(head.reads_all ? 0 : head.error, head.reads_all ? 0 : head.mass_left);
    cost_->AddDifficulty(head.difficulty);
    cost_->num_fallbacks += static_cast<uint64_t>(head.reads_all);
  }
}

Status GroupDraw::Attend(const StateRows& states) {
  const auto num_middle = static_cast<double>(call_.middle.end - call_.middle.begin);
  const double rows = call_.budget.first_rows;
  const bool reads_all = rows >= kMostShareOfRows * num_middle;
  std::fill_n(scratch_.heads, group(),
              HeadDraw{.rows = rows, .open = !reads_all, .reads_all = reads_all});
  for (bool more = !reads_all; more;) {
    const int64_t start_ns = SteadyNowNanos();
    ChooseThresholds();
    Draw();
    const int64_t drawn_ns = SteadyNowNanos();
    ATTNDB_RETURN_IF_ERROR(ScoreDrawn());
    ATTNDB_RETURN_IF_ERROR(AttendDrawn(states));
    cost_->select_ns += drawn_ns - start_ns;
    cost_->attend_ns += SteadyNowNanos() - drawn_ns;
    more = WantsMore();
    cost_->num_redraws += static_cast<uint64_t>(more);
  }
  const int64_t start_ns = SteadyNowNanos();
  ATTNDB_RETURN_IF_ERROR(ReadAllMarked(read(), scratch_.heads, states));
  cost_->attend_ns += SteadyNowNanos() - start_ns;
  Book();
  return Status::Ok();
}

}  // namespace attndb::attention
