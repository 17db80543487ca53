// The rows of a plan that leaves tokens out: scores, choice, what is attended to, what is
// estimated.
#include <algorithm>
#include <cmath>
#include <limits>

#include "common/clock.h"
#include "common/random.h"
#include "kernels/attend.h"
#include "kernels/score.h"
#include "kernels/select.h"
#include "kernels/weights.h"
#include "query/attention/call_util.h"
#include "query/attention/layer_attention.h"
#include "query/attention/remainder.h"

namespace attndb::query {

using kernels::StateRows;
using kernels::StatesFrom;

namespace {

float Norm(const float* q, size_t num_elements) {
  float square = 0.0f;
  for (size_t i = 0; i < num_elements; ++i) square += q[i] * q[i];
  return std::sqrt(square);
}

// By how much estimates are lowered, so that the weights they give are right in the mean: the mean
// of exp(scale * x) for normal x of deviation `error` is exp((scale * error)^2 / 2).
float ScoreShift(float error, float scale) { return 0.5f * scale * error * error; }

// In nats. On SmolLM2's heads, whose 4-bit errors are .28, V alone of twice as many tokens gives
// less error than K and V of the drawn; at 1 nat estimated weights are wrong by factors.
constexpr float kErrorThatEvensOut = 0.5f;

}  // namespace

void LayerAttention::ScoreRange(const WorkItem& item, Part* part) {
  const WorkUnit& unit = work_.units[item.unit];
  const TokenRange range = unit.Range(item.range);
  const TokenRange middle = Middle(unit.first_row);
  float* const scores = ScoresOf(item, part);
  for (size_t run = 0; run < call_.num_runs; ++run) {
    const TokenRange tokens = Intersect(range, {run_begin_[run], run_begin_[run + 1]});
    if (Estimates(unit.kv_head, run) == nullptr) {
      ScoreExactly(unit, run, tokens, scores, part);
      continue;
    }
    ScoreExactly(unit, run, Intersect(tokens, {0, middle.begin}), scores, part);
    Estimate(unit, run, Intersect(tokens, middle), scores, part);
    ScoreExactly(unit, run, Intersect(tokens, {middle.end, call_.num_tokens}), scores, part);
  }
}

void LayerAttention::ScoreExactly(const WorkUnit& unit, size_t run, TokenRange tokens,
                                  float* scores, Part* part) {
  const uint64_t num_tokens = tokens.end - tokens.begin;
  if (num_tokens == 0) return;
  kernels::ScoreRows(Keys(unit.kv_head, run, tokens.begin - run_begin_[run]), num_tokens, part->q,
                     k_padded_, call_.spec.group_size(), scores + tokens.begin, call_.num_tokens);
  part->cost.bytes_touched += num_tokens * k_padded_ * DTypeBytes(call_.kv_dtype);
}

void LayerAttention::Estimate(const WorkUnit& unit, size_t run, TokenRange tokens, float* scores,
                              Part* part) {
  const uint64_t num_tokens = tokens.end - tokens.begin;
  if (num_tokens == 0) return;
  const index::KeyEstimates& estimates = *Estimates(unit.kv_head, run);
  const uint32_t group = call_.spec.group_size();
  for (uint32_t g = 0; g < group; ++g) {
    part->queries[g] = estimates.Prepare(part->q + g * k_padded_, part->spare + g * k_padded_,
                                         part->codes + g * CodeStride());
    const float norm = Norm(part->q + g * k_padded_, k_padded_);
    part->queries[g].offset -=
        ScoreShift(estimates.ScoreError(call_.plan.bits, norm), call_.spec.scale);
  }
  estimates.Scan(call_.plan.bits, tokens.begin - run_begin_[run], num_tokens, part->queries, group,
                 scores + tokens.begin, call_.num_tokens);
  part->cost.bytes_touched += num_tokens * estimates.ScanBytes(call_.plan.bits);
}

void LayerAttention::FinishSparse(const WorkItem& item, Part* part) {
  next_head_[item.unit].store(0, std::memory_order_release);
  FinishHeads(item.unit, part);
}

void LayerAttention::FinishHeads(uint32_t unit_idx, Part* part) {
  const uint32_t group = call_.spec.group_size();
  std::atomic<uint32_t>& next = next_head_[unit_idx];
  if (next.load(std::memory_order_relaxed) >= group) return;
  // Of another unit, perhaps, or of none.
  LoadQueries(work_.units[unit_idx], part);
  for (;;) {
    const uint32_t head = next.fetch_add(1, std::memory_order_acq_rel);
    if (head >= group) return;
    FinishHead(unit_idx, head, part);
  }
}

void LayerAttention::FinishHead(uint32_t unit_idx, uint32_t group_head, Part* part) {
  const WorkUnit& unit = work_.units[unit_idx];
  const int64_t start_ns = SteadyNowNanos();
  float* const scores = ScoresOf({unit_idx, 0}, part) + group_head * call_.num_tokens;
  const StateRows state = part->states;
  kernels::InitStates(state, 1, v_padded_);
  const size_t num_chosen = Choose(unit, group_head, scores, part);
  const int64_t chosen_ns = SteadyNowNanos();
  AttendListed(unit, {part->indices, part->chosen_scores, num_chosen}, Logit(call_.spec), state,
               part);
  if (call_.plan.Samples()) AttendRemainder(unit, group_head, num_chosen, scores, state, part);
  WriteHead(unit, group_head, state, part);
  part->cost.select_ns += chosen_ns - start_ns;
  part->cost.attend_ns += SteadyNowNanos() - chosen_ns;
}

// Fills part->indices with sinks, critical tokens and window of one q head, ascending, and
// part->chosen_scores with their scores. Marks the critical ones in `scores`, for the remainder.
size_t LayerAttention::Choose(const WorkUnit& unit, uint32_t group_head, float* scores,
                              Part* part) {
  const TokenRange middle = Middle(unit.first_row);
  uint32_t* const critical = part->indices + middle.begin;
  const size_t num_critical = ChooseCritical(unit, group_head, scores, critical, part);
  for (uint64_t i = 0; i < middle.begin; ++i) part->indices[i] = static_cast<uint32_t>(i);
  uint32_t* end = critical + num_critical;
  for (uint64_t i = middle.end; i < unit.tokens.end; ++i) *end++ = static_cast<uint32_t>(i);
  part->cost.num_selected += num_critical;
  ++part->cost.num_queries;
  const auto num_chosen = static_cast<size_t>(end - part->indices);
  for (size_t i = 0; i < num_chosen; ++i) part->chosen_scores[i] = scores[part->indices[i]];
  if (!call_.plan.Samples()) return num_chosen;
  for (size_t i = 0; i < num_critical; ++i) {
    scores[critical[i]] = -std::numeric_limits<float>::infinity();
  }
  return num_chosen;
}

size_t LayerAttention::ChooseCritical(const WorkUnit& unit, uint32_t group_head, float* scores,
                                      uint32_t* indices, Part* part) {
  const float* const q = part->q + group_head * k_padded_;
  const index::SearchCall search = DescribeSearch(unit, q, scores);
  const size_t num_candidates = call_.search->Search(search, indices, part->select);
  if (search.score_error == 0) return num_candidates;
  ScoreCandidates(unit, q, indices, num_candidates, scores, part);
  const TokenRange middle = search.middle;
  float max = std::max(kernels::MaxScore(scores, middle.begin),
                       kernels::MaxScore(scores + middle.end, unit.tokens.end - middle.end));
  max = std::max(max, kernels::MaxScore(part->chosen_scores, num_candidates));
  return call_.search->Refine(search, max, indices, num_candidates, part->select);
}

index::SearchCall LayerAttention::DescribeSearch(const WorkUnit& unit, const float* q,
                                                 const float* scores) const {
  index::SearchCall search = {scores, unit.tokens.end, Middle(unit.first_row)};
  for (size_t run = 0; run < call_.num_runs; ++run) {
    const index::KeyEstimates* const estimates = Estimates(unit.kv_head, run);
    if (estimates == nullptr) continue;
    const float error = estimates->ScoreError(call_.plan.bits, Norm(q, k_padded_));
    search.score_error = std::max(search.score_error, error);
    search.score_shift = std::max(search.score_shift, ScoreShift(error, call_.spec.scale));
  }
  return search;
}

// Replaces estimates by exact scores; they are in part->chosen_scores too.
void LayerAttention::ScoreCandidates(const WorkUnit& unit, const float* q, uint32_t* indices,
                                     size_t count, float* scores, Part* part) {
  size_t begin = 0;
  for (size_t run = 0; run < call_.num_runs && begin < count; ++run) {
    const auto run_begin = static_cast<uint32_t>(run_begin_[run]);
    const auto run_end = static_cast<uint32_t>(run_begin_[run + 1]);
    uint32_t* const first = indices + begin;
    uint32_t* const last = std::lower_bound(first, indices + count, run_end);
    const auto num_in_run = static_cast<size_t>(last - first);
    if (Estimates(unit.kv_head, run) == nullptr) {
      for (size_t i = 0; i < num_in_run; ++i) part->chosen_scores[begin + i] = scores[first[i]];
    } else {
      for (size_t i = 0; i < num_in_run; ++i) first[i] -= run_begin;
      kernels::ScoreGather(Keys(unit.kv_head, run, 0), first, num_in_run, q, k_padded_, 1,
                           part->chosen_scores + begin, num_in_run);
      for (size_t i = 0; i < num_in_run; ++i) {
        first[i] += run_begin;
        scores[first[i]] = part->chosen_scores[begin + i];
      }
      part->cost.num_candidates += num_in_run;
      part->cost.bytes_touched += num_in_run * k_padded_ * DTypeBytes(call_.kv_dtype);
    }
    begin += num_in_run;
  }
}

// Folds tokens into `state`; leaves their indices relative to their runs.
void LayerAttention::AttendListed(const WorkUnit& unit, const Listed& tokens,
                                  const kernels::LogitSpec& logit, const StateRows& state,
                                  Part* part) {
  uint32_t* const end = tokens.indices + tokens.count;
  size_t begin = 0;
  for (size_t run = 0; run < call_.num_runs && begin < tokens.count; ++run) {
    uint32_t* const first = tokens.indices + begin;
    uint32_t* const last = std::lower_bound(first, end, static_cast<uint32_t>(run_begin_[run + 1]));
    for (uint32_t* i = first; i != last; ++i) *i -= static_cast<uint32_t>(run_begin_[run]);
    const auto count = static_cast<size_t>(last - first);
    kernels::AttendScored(tokens.scores + begin, Values(unit.kv_head, run, 0), first, count, logit,
                          state);
    begin += count;
  }
  part->cost.bytes_touched += tokens.count * v_padded_ * DTypeBytes(call_.kv_dtype);
}

// Fills part->chosen_scores with logits of the drawn tokens of the middle. 0 where each stands for
// an equal share of the mass: the scores by which they were drawn are exact, or their errors so
// small that they even out over the tokens left. Else what makes a token's weight the exact one, so
// that errors cost precision but no bias (importance sampling), and a row of K.
void LayerAttention::WeighSample(const WorkUnit& unit, const float* q, size_t num_drawn,
                                 float* scores, Part* part) {
  const auto first = static_cast<uint32_t>(Middle(unit.first_row).begin);
  for (size_t i = 0; i < num_drawn; ++i) {
    part->indices[i] += first;
    part->drawn[i] = scores[part->indices[i]];
  }
  const float error = DescribeSearch(unit, q, scores).score_error;
  if (error * call_.spec.scale <= kErrorThatEvensOut) {
    std::fill_n(part->chosen_scores, num_drawn, 0.0f);
    return;
  }
  ScoreCandidates(unit, q, part->indices, num_drawn, scores, part);
  const kernels::LogitSpec logit = Logit(call_.spec);
  for (size_t i = 0; i < num_drawn; ++i) {
    part->chosen_scores[i] =
        kernels::LogitOf(part->chosen_scores[i], logit) - kernels::LogitOf(part->drawn[i], logit);
  }
}

void LayerAttention::AttendWholeRemainder(const WorkUnit& unit, uint32_t group_head, float* scores,
                                          const StateRows& state, Part* part) {
  const TokenRange middle = Middle(unit.first_row);
  const size_t count = kernels::SelectRange(scores + middle.begin, middle.end - middle.begin,
                                            -std::numeric_limits<float>::max(), part->indices);
  for (size_t i = 0; i < count; ++i) part->indices[i] += static_cast<uint32_t>(middle.begin);
  ScoreCandidates(unit, part->q + group_head * k_padded_, part->indices, count, scores, part);
  AttendListed(unit, {part->indices, part->chosen_scores, count}, Logit(call_.spec), state, part);
}

// Draws tokens of the remainder and attends to them: the even ones into row 0 of part->halves, the
// odd ones into row 1, each with the mass that it stands for.
void LayerAttention::AttendSample(const WorkUnit& unit, uint32_t group_head,
                                  const RemainderCall& call, const RemainderDraw& draw,
                                  float* scores, Part* part) {
  DrawRemainder(call, draw, part->indices);
  WeighSample(unit, part->q + group_head * k_padded_, draw.num_samples, scores, part);
  const size_t num_even = (draw.num_samples + 1) / 2;
  uint32_t* const odd = reinterpret_cast<uint32_t*>(part->drawn);
  for (size_t i = 0; i < draw.num_samples; ++i) {
    (i % 2 == 0 ? part->indices : odd)[i / 2] = part->indices[i];
  }
  std::copy_n(odd, draw.num_samples - num_even, part->indices + num_even);
  for (size_t i = 0; i < draw.num_samples; ++i) {
    (i % 2 == 0 ? part->chosen_scores : part->drawn)[i / 2] = part->chosen_scores[i];
  }
  std::copy_n(part->drawn, draw.num_samples - num_even, part->chosen_scores + num_even);
  kernels::InitStates(part->halves, 2, v_padded_);
  const auto log_share = static_cast<float>(std::log(draw.mass / draw.num_samples));
  for (size_t half = 0; half < 2; ++half) {
    const size_t first = half * num_even;
    const size_t count = half == 0 ? num_even : draw.num_samples - num_even;
    const StateRows state = StatesFrom(part->halves, half);
    AttendListed(unit, {part->indices + first, part->chosen_scores + first, count}, {.scale = 1.0f},
                 state, part);
    state.max[0] += call.max + log_share;
  }
}

// What a sample of two halves leaves uncertain of the output: the norm of half their difference,
// which is the standard error of their mean, times the remainder's share of the mass, over the norm
// of the output. state: what was chosen; all: it and both halves.
double LayerAttention::SampleError(const StateRows& state, const StateRows& halves,
                                   const StateRows& all) const {
  const StateRows other = StatesFrom(halves, 1);
  if (!(halves.sum[0] > 0 && other.sum[0] > 0)) return 0;
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < v_padded_; ++i) {
    const double half = 0.5 * (double{halves.out[i]} / double{halves.sum[0]} -
                               double{other.out[i]} / double{other.sum[0]});
    const double out = double{all.out[i]} / double{all.sum[0]};
    difference += half * half;
    norm += out * out;
  }
  const double chosen = double{state.sum[0]} * std::exp(double{state.max[0]} - double{all.max[0]});
  const double share = std::max(0.0, 1.0 - chosen / double{all.sum[0]});
  return norm > 0 ? share * std::sqrt(difference / norm) : 0;
}

// Folds an estimate of the middle tokens that were not chosen into `state`: a sample of them, or
// all if they are no more than the sample. `auto` learns from a first sample how many it takes, and
// both count by their sizes.
void LayerAttention::AttendRemainder(const WorkUnit& unit, uint32_t group_head, size_t num_chosen,
                                     float* scores, const StateRows& state, Part* part) {
  const TokenRange middle = Middle(unit.first_row);
  const uint64_t num_left = unit.tokens.end - num_chosen;
  if (num_left == 0) return;
  const RemainderCall call = {
      scores + middle.begin, middle.end - middle.begin, Logit(call_.spec), state.max[0], part->sums,
      part->weights};
  RemainderDraw draw = {RemainderMass(call), call_.plan.FirstSamples()};
  if (!(draw.mass > 0)) return;
  if (num_left <= draw.num_samples) {
    AttendWholeRemainder(unit, group_head, scores, state, part);
    return;
  }
  const uint64_t head = unit.kv_head * call_.spec.group_size() + group_head;
  Random random(TokenOfRow(unit.first_row) * call_.spec.num_q_heads + head);
  draw.offset = random.NextDouble();
  AttendSample(unit, group_head, call, draw, scores, part);
  const auto fold = [&](const StateRows& into) {
    for (size_t half = 0; half < 2; ++half) {
      kernels::MergeStates(StatesFrom(part->halves, half), into, 1, v_padded_);
    }
  };
  if (call_.plan.kind != QueryKind::kAuto) {
    fold(state);
    return;
  }
  const StateRows all = StatesFrom(part->halves, 2);
  kernels::InitStates(all, 1, v_padded_);
  kernels::MergeStates(state, all, 1, v_padded_);
  fold(all);
  const double wanted = call_.plan.error;
  const double found = SampleError(state, part->halves, all);
  if (found <= wanted) {
    fold(state);
    return;
  }
  const double num_wanted = std::ceil(draw.num_samples * (found / wanted) * (found / wanted));
  if (num_wanted >= static_cast<double>(num_left)) {
    AttendWholeRemainder(unit, group_head, scores, state, part);
    return;
  }
  // Each token of either sample counts the same.
  const auto weigh = [&](double share) {
    for (size_t half = 0; half < 2; ++half) {
      part->halves.max[half] += static_cast<float>(std::log(share));
    }
  };
  const double first_share = draw.num_samples / num_wanted;
  weigh(first_share);
  fold(state);
  draw.num_samples = static_cast<uint32_t>(num_wanted) - draw.num_samples;
  if (draw.num_samples == 0) return;
  draw.offset = random.NextDouble();
  AttendSample(unit, group_head, call, draw, scores, part);
  weigh(1 - first_share);
  fold(state);
}

}  // namespace attndb::query
