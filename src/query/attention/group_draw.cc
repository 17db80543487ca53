#include "query/attention/group_draw.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/clock.h"
#include "kernels/draw.h"
#include "kernels/select.h"
#include "kernels/weights.h"
#include "query/attention/threshold_sample.h"

namespace attndb::query {

using kernels::StateRows;
using kernels::StatesFrom;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A draw that can't be made larger may be off by so much more before all is read.
constexpr double kLastTolerance = 2;

// Reading more than this share of the rows here and there costs more than a stream of all.
constexpr double kMostShare = 0.5;

// A token of more than so many thresholds of a head is scored exactly: what the estimates of
// lighter ones are off by is less than what leaving tokens to chance costs.
constexpr float kExactFrom = 3;

// The error falls faster than by the square root of the rows, since more of the mass is certain
// then: on SmolLM2's heads about as one over the rows.
double MoreRows(double rows, double found_over_tolerated) {
  return rows * std::max(1.5, 1.3 * found_over_tolerated);
}

size_t DrawnBytes(uint32_t group, uint64_t num_tokens) {
  return ArenaBytes<uint32_t>(num_tokens) + ArenaBytes<float>(num_tokens) +
         ArenaBytes<float>(group * num_tokens);
}

GroupScratch::Drawn TakeDrawn(uint32_t group, uint64_t num_tokens, Arena* arena) {
  GroupScratch::Drawn drawn;
  drawn.tokens = arena->Take<uint32_t>(num_tokens);
  drawn.lifts = arena->Take<float>(num_tokens);
  drawn.scores = arena->Take<float>(group * num_tokens);
  drawn.stride = num_tokens;
  return drawn;
}

// Parts places: those that belong stay, the others go to `rest`, in order. Returns how many stay.
template <typename Belongs>
size_t Part(size_t count, const Belongs& belongs, uint32_t* places, uint32_t* rest) {
  size_t num = 0;
  size_t num_rest = 0;
  for (size_t i = 0; i < count; ++i) {
    const uint32_t place = places[i];
    const bool is_in = belongs(place);
    rest[num_rest] = place;
    num_rest += static_cast<size_t>(!is_in);
    places[num] = place;
    num += static_cast<size_t>(is_in);
  }
  return num;
}

// Half of the tokens, and the one that makes an odd number even.
uint64_t HalfOf(uint64_t num_tokens) { return num_tokens / 2 + 1; }

}  // namespace

size_t GroupScratch::Bytes(uint32_t group, uint64_t num_tokens, size_t v_padded) {
  return ArenaBytes<HeadDraw>(group) + ArenaBytes<float>(group) +
         ArenaBytes<float>(group * kSampled) + ArenaBytes<float>(num_tokens) +
         ArenaBytes<uint32_t>(num_tokens + kernels::kSelectSlack) +
         ArenaBytes<uint32_t>(num_tokens) + 2 * DrawnBytes(group, num_tokens) +
         2 * DrawnBytes(group, HalfOf(num_tokens)) + StateBytes(2 * group, v_padded);
}

GroupScratch GroupScratch::Take(uint32_t group, uint64_t num_tokens, size_t v_padded,
                                Arena* arena) {
  GroupScratch scratch;
  scratch.heads = arena->Take<HeadDraw>(group);
  scratch.thresholds = arena->Take<float>(group);
  scratch.sample = arena->Take<float>(group * kSampled);
  scratch.lifts = arena->Take<float>(num_tokens);
  scratch.places = arena->Take<uint32_t>(num_tokens + kernels::kSelectSlack);
  scratch.parted = arena->Take<uint32_t>(num_tokens);
  for (const List list : {kCertain, kHeavy}) {
    scratch.lists[list] = TakeDrawn(group, num_tokens, arena);
  }
  for (const List list : {kEven, kOdd}) {
    scratch.lists[list] = TakeDrawn(group, HalfOf(num_tokens), arena);
  }
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

// Places of the slice's tokens that are neither sinks nor window.
TokenRange GroupDraw::MiddleOf(const DrawSlice& slice) const {
  const auto place_of = [&](uint64_t token) {
    const uint32_t* const end = slice.tokens + slice.count;
    const uint32_t* const found = std::lower_bound(slice.tokens, end, static_cast<uint32_t>(token));
    return static_cast<uint64_t>(found - slice.tokens);
  };
  return {place_of(call_.middle.begin), place_of(call_.middle.end)};
}

// Logits of some of the middle tokens that were kept, each less the log of the probability with
// which it was kept: of tokens so weighed, what any higher threshold draws can be told. Returns how
// many kept ones each stands for.
double GroupDraw::SampleKept(size_t* num_sampled) {
  size_t num_kept = 0;
  for (const DrawSlice& slice : call_.slices) num_kept += slice.count;
  const size_t stride = num_kept / GroupScratch::kSampled + 1;
  size_t count = 0;
  size_t skipped = 0;  // Tokens of the next slice before its first one.
  for (const DrawSlice& slice : call_.slices) {
    const TokenRange middle = MiddleOf(slice);
    const size_t first = middle.begin + skipped;
    const size_t num = first < middle.end ? (middle.end - first + stride - 1) / stride : 0;
    skipped = first + num * stride - middle.end;
    for (uint32_t head = 0; head < group(); ++head) {
      const float* const from = slice.scores + head * slice.scores_stride + first;
      float* const to = scratch_.sample + head * GroupScratch::kSampled + count;
      for (size_t i = 0; i < num; ++i) to[i] = from[i * stride];
    }
    kernels::LiftScores(scratch_.sample + count, GroupScratch::kSampled, group(), num, logit(),
                        slice.thresholds, scratch_.lifts);
    for (uint32_t head = 0; head < group(); ++head) {
      float* const logits = scratch_.sample + head * GroupScratch::kSampled + count;
      kernels::ToLogits(logits, num, logit(), logits);
      for (size_t i = 0; i < num; ++i) logits[i] -= std::min(scratch_.lifts[i], 0.0f);
    }
    count += num;
  }
  *num_sampled = count;
  return static_cast<double>(stride);
}

// No lower than what was kept allows.
void GroupDraw::ChooseThresholds() {
  size_t num_sampled = 0;
  const double share = SampleKept(&num_sampled);
  for (uint32_t head = 0; head < group(); ++head) {
    float least = -kInfinity;
    for (const DrawSlice& slice : call_.slices) least = std::max(least, slice.thresholds[head]);
    float* const sample = scratch_.sample + head * GroupScratch::kSampled;
    const float wanted =
        FindThresholdOfScores(sample, num_sampled, {1.0f}, share, scratch_.heads[head].rows);
    scratch_.thresholds[head] = std::max(least, wanted);
    HeadDraw& draw = scratch_.heads[head];
    draw.can_grow = wanted > least;
    if (!draw.can_grow) draw.rows = std::min(draw.rows, kKept * call_.budget.first_rows);
  }
}

// Adds tokens of the slice: every `step`-th of `count` places, from the first on.
void GroupDraw::Append(const DrawSlice& slice, const uint32_t* places, size_t count, size_t step,
                       GroupScratch::List list) {
  Drawn& to = scratch_.lists[list];
  const size_t num = (count + step - 1) / step;
  const auto copy = [&](const auto* from, auto* out) {
    for (size_t i = 0; i < num; ++i) out[i] = from[places[i * step]];
  };
  copy(slice.tokens, to.tokens + to.count);
  copy(scratch_.lifts, to.lifts + to.count);
  for (uint32_t head = 0; head < group(); ++head) {
    copy(slice.scores + head * slice.scores_stride, to.scores + head * to.stride + to.count);
  }
  to.count += num;
}

void GroupDraw::DrawOf(const DrawSlice& slice) {
  const TokenRange middle = MiddleOf(slice);
  float* const lifts = scratch_.lifts;
  kernels::LiftScores(slice.scores, slice.scores_stride, group(), slice.count, logit(),
                      scratch_.thresholds, lifts);
  // Sinks and window are certain, and their scores exact.
  std::fill_n(lifts, middle.begin, 0.0f);
  std::fill_n(lifts + middle.end, slice.count - middle.end, 0.0f);
  uint32_t* const places = scratch_.places;
  uint32_t* const rest = scratch_.parted;
  const size_t num_drawn = kernels::SelectLifted(lifts, slice.noise, slice.count, places);
  const size_t num_light = Part(
      num_drawn, [&](uint32_t place) { return lifts[place] < 0.0f; }, places, rest);
  const Drawn* const lists = scratch_.lists;
  const bool odd_first = lists[GroupScratch::kEven].count > lists[GroupScratch::kOdd].count;
  const size_t num_first = num_light > 0 ? 1 : 0;
  Append(slice, places, num_light, 2, odd_first ? GroupScratch::kOdd : GroupScratch::kEven);
  Append(slice, places + num_first, num_light - num_first, 2,
         odd_first ? GroupScratch::kEven : GroupScratch::kOdd);
  const size_t num_certain = num_drawn - num_light;
  const float heavy = score_error_ == 0 ? kInfinity : std::log(kExactFrom);
  const size_t num_heavy = Part(
      num_certain, [&](uint32_t place) { return lifts[place] > heavy; }, rest, places);
  Append(slice, rest, num_heavy, 1, GroupScratch::kHeavy);
  Append(slice, places, num_certain - num_heavy, 1, GroupScratch::kCertain);
}

void GroupDraw::Draw() {
  for (Drawn& list : scratch_.lists) list.count = 0;
  for (const DrawSlice& slice : call_.slices) DrawOf(slice);
}

// Turns scores into logits of the weights that the tokens stand for. Scores are made exact first:
// of heavy tokens, and of all where errors do not even out. Light ones then weigh what makes up for
// their probability, whatever that was drawn by.
void GroupDraw::WeighDrawn() {
  const bool all_exact = !ErrorsEvenOut(score_error_, call_.spec->scale);
  for (const auto list :
       {GroupScratch::kCertain, GroupScratch::kHeavy, GroupScratch::kEven, GroupScratch::kOdd}) {
    const Drawn& drawn = scratch_.lists[list];
    if (score_error_ != 0 && (all_exact || list == GroupScratch::kHeavy)) {
      ScoreListed(call_.runs, {drawn.tokens, drawn.count}, call_.q, drawn.scores, drawn.stride,
                  cost_);
    }
    for (uint32_t head = 0; head < group(); ++head) {
      float* const logits = drawn.scores + head * drawn.stride;
      kernels::ToLogits(logits, drawn.count, logit(), logits);
      if (list != GroupScratch::kEven && list != GroupScratch::kOdd) continue;
      for (size_t i = 0; i < drawn.count; ++i) logits[i] -= drawn.lifts[i];
    }
  }
}

// What the codes of light tokens are off by evens out: each weighs less than a threshold.
void GroupDraw::AttendList(GroupScratch::List list, const StateRows& states) {
  const Drawn& drawn = scratch_.lists[list];
  const bool light = list == GroupScratch::kEven || list == GroupScratch::kOdd;
  AttendListed(call_.runs, {drawn.tokens, drawn.count}, {drawn.scores, drawn.stride, group()},
               {1.0f}, light && call_.plan->value_bits != 0, states, cost_);
}

void GroupDraw::AttendDrawn(const StateRows& states) {
  const StateRows odd = StatesFrom(scratch_.half_states, group());
  kernels::InitStates(states, group(), v_padded_);
  kernels::InitStates(scratch_.half_states, 2 * group(), v_padded_);
  AttendList(GroupScratch::kCertain, states);
  AttendList(GroupScratch::kHeavy, states);
  AttendList(GroupScratch::kEven, scratch_.half_states);
  AttendList(GroupScratch::kOdd, odd);
  FindErrors(states);
  kernels::MergeStates(scratch_.half_states, states, group(), v_padded_);
  kernels::MergeStates(odd, states, group(), v_padded_);
}

// What the light tokens' part in a variance is over what it would be if their probabilities were
// small: the mean of 1 - p. A token that was almost certain says little about chance.
double GroupDraw::ShareOfChance() const {
  double sum = 0;
  size_t count = 0;
  for (const auto list : {GroupScratch::kEven, GroupScratch::kOdd}) {
    const Drawn& light = scratch_.lists[list];
    kernels::ExpWeights(light.lifts, light.count, {1.0f}, 0.0f, scratch_.lifts);
    sum += double{kernels::SumAtMost(scratch_.lifts, light.count, 1.0f)};
    count += light.count;
  }
  return 1.0 - sum / static_cast<double>(count);
}

// states: of certain tokens.
void GroupDraw::FindErrors(const StateRows& states) {
  const bool any_light =
      scratch_.lists[GroupScratch::kEven].count + scratch_.lists[GroupScratch::kOdd].count > 0;
  const double share_of_chance = any_light ? ShareOfChance() : 0;
  for (uint32_t i = 0; i < group(); ++i) {
    HeadDraw& head = scratch_.heads[i];
    head.mass_left = 0;
    if (any_light) {
      FindLightError(states, i, &head);
      head.error *= std::sqrt(share_of_chance);
      continue;
    }
    // As if one were left out that is as far off as the output is long.
    const double mass =
        double{states.sum[i]} * std::exp(double{states.max[i]} - double{scratch_.thresholds[i]});
    head.error = mass > 0 ? 1.0 / mass : 0.0;
  }
}

// The output as it would be if either half of the light tokens stood for all of them. Half of the
// distance of the two is the standard error of what both together give, weights and values alike.
void GroupDraw::FindLightError(const StateRows& states, uint32_t i, HeadDraw* head) const {
  const StateRows parts[] = {StatesFrom(states, i), StatesFrom(scratch_.half_states, i),
                             StatesFrom(scratch_.half_states, group() + i)};
  const double max = std::max({parts[0].max[0], parts[1].max[0], parts[2].max[0]});
  double factor[3];
  double sum[3];
  for (size_t p = 0; p < 3; ++p) {
    factor[p] = std::exp(double{parts[p].max[0]} - max);
    sum[p] = factor[p] * double{parts[p].sum[0]};
  }
  const double total = sum[0] + sum[1] + sum[2];
  double off = 0;
  double norm = 0;
  for (size_t c = 0; c < v_padded_; ++c) {
    const double certain = factor[0] * double{parts[0].out[c]};
    const double even = factor[1] * double{parts[1].out[c]};
    const double odd = factor[2] * double{parts[2].out[c]};
    const double by_even = (certain + 2 * even) / (sum[0] + 2 * sum[1]);
    const double by_odd = sum[0] + 2 * sum[2] > 0 ? (certain + 2 * odd) / (sum[0] + 2 * sum[2]) : 0;
    const double out = (certain + even + odd) / total;
    off += 0.25 * (by_even - by_odd) * (by_even - by_odd);
    norm += out * out;
  }
  head->error = norm > 0 ? std::sqrt(off / norm) : 0;
  head->mass_left = (sum[1] + sum[2]) / total;
}

// Which of the open heads are to draw again, with more rows, and which are to read all instead.
// Returns whether there are any of the former. Whoever is good enough stays so.
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
    head.reads_all = !head.can_grow || head.rows >= kMostShare * num_middle;
    head.open = !head.reads_all;
    wants_more = wants_more || head.open;
  }
  return wants_more;
}

// The states of heads that read all, in one pass over all of these.
void GroupDraw::ReadAll(const StateRows& states) {
  uint32_t first = group();
  uint32_t last = 0;
  for (uint32_t i = 0; i < group(); ++i) {
    if (!scratch_.heads[i].reads_all) continue;
    first = std::min(first, i);
    last = i + 1;
  }
  if (first >= last) return;
  for (uint32_t i = first; i < last; ++i) scratch_.heads[i].reads_all = true;
  const StateRows rows = StatesFrom(states, first);
  kernels::InitStates(rows, last - first, v_padded_);
  AttendAll(call_.runs, call_.num_tokens,
            {call_.q.q + first * call_.q.stride, call_.q.stride, last - first}, logit(), rows,
            cost_);
}

void GroupDraw::Book() {
  const uint64_t num_middle = call_.middle.end - call_.middle.begin;
  const size_t num_certain =
      scratch_.lists[GroupScratch::kCertain].count + scratch_.lists[GroupScratch::kHeavy].count;
  const uint64_t num_fixed = call_.num_tokens - num_middle;
  cost_->num_queries += group();
  for (uint32_t i = 0; i < group(); ++i) {
    const HeadDraw& head = scratch_.heads[i];
    cost_->num_selected += head.reads_all ? num_middle : num_certain - num_fixed;
    if (head.reads_all) {
      cost_->AddDraw(0, 0, head.difficulty);
    } else {
      cost_->AddDraw(head.error, head.mass_left, head.difficulty);
    }
  }
}

void GroupDraw::Attend(const StateRows& states) {
  const auto num_middle = static_cast<double>(call_.middle.end - call_.middle.begin);
  const double rows = call_.budget.first_rows;
  const bool reads_all = rows >= kMostShare * num_middle;
  std::fill_n(scratch_.heads, group(),
              HeadDraw{.rows = rows, .open = !reads_all, .reads_all = reads_all});
  for (bool more = !reads_all; more; more = WantsMore()) {
    const int64_t start_ns = SteadyNowNanos();
    ChooseThresholds();
    Draw();
    const int64_t drawn_ns = SteadyNowNanos();
    WeighDrawn();
    AttendDrawn(states);
    cost_->select_ns += drawn_ns - start_ns;
    cost_->attend_ns += SteadyNowNanos() - drawn_ns;
  }
  const int64_t start_ns = SteadyNowNanos();
  ReadAll(states);
  cost_->attend_ns += SteadyNowNanos() - start_ns;
  Book();
}

}  // namespace attndb::query
