// The rows of a plan that leaves tokens out: scores, choice, what is attended to, what is
// estimated.
#include <algorithm>
#include <cmath>
#include <limits>

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
  const WorkUnit& unit = work_.units[item.unit];
  const uint32_t group = call_.spec.group_size();
  kernels::InitStates(part->states, group, v_padded_);
  for (uint32_t g = 0; g < group; ++g) {
    const int64_t start_ns = NowNs();
    float* const scores = ScoresOf(item, part) + g * call_.num_tokens;
    const size_t num_chosen = Choose(unit, g, scores, part);
    const int64_t chosen_ns = NowNs();
    const StateRows state = StatesFrom(part->states, g);
    AttendChosen(unit, num_chosen, Logit(call_.spec), state, part);
    if (call_.plan.samples != 0) AttendRemainder(unit, g, num_chosen, scores, state, part);
    part->cost.select_ns += chosen_ns - start_ns;
    part->cost.attend_ns += NowNs() - chosen_ns;
  }
  WriteOutput(unit, part->states, part);
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
  if (call_.plan.samples == 0) return num_chosen;
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

// Folds part->indices, whose scores under `logit` are part->chosen_scores, into `state`.
void LayerAttention::AttendChosen(const WorkUnit& unit, size_t num_chosen,
                                  const kernels::LogitSpec& logit, const StateRows& state,
                                  Part* part) {
  size_t begin = 0;
  for (size_t run = 0; run < call_.num_runs && begin < num_chosen; ++run) {
    uint32_t* const first = part->indices + begin;
    const auto run_end = static_cast<uint32_t>(run_begin_[run + 1]);
    uint32_t* const last = std::lower_bound(first, part->indices + num_chosen, run_end);
    for (uint32_t* i = first; i != last; ++i) *i -= static_cast<uint32_t>(run_begin_[run]);
    const auto count = static_cast<size_t>(last - first);
    kernels::AttendScored(part->chosen_scores + begin, Values(unit.kv_head, run, 0), first, count,
                          logit, state);
    begin += count;
  }
  part->cost.bytes_touched += num_chosen * v_padded_ * DTypeBytes(call_.kv_dtype);
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

// Folds an estimate of the middle tokens that were not chosen into `state`: a sample of them, or
// all if they are no more than the sample.
void LayerAttention::AttendRemainder(const WorkUnit& unit, uint32_t group_head, size_t num_chosen,
                                     float* scores, const StateRows& state, Part* part) {
  const TokenRange middle = Middle(unit.first_row);
  const uint64_t num_left = unit.tokens.end - num_chosen;
  if (num_left == 0) return;
  float* const left = scores + middle.begin;
  const size_t num_middle = middle.end - middle.begin;
  if (num_left <= call_.plan.samples) {
    const size_t count =
        kernels::SelectRange(left, num_middle, -std::numeric_limits<float>::max(), part->indices);
    for (size_t i = 0; i < count; ++i) {
      part->indices[i] += static_cast<uint32_t>(middle.begin);
    }
    ScoreCandidates(unit, part->q + group_head * k_padded_, part->indices, count, scores, part);
    AttendChosen(unit, count, Logit(call_.spec), state, part);
    return;
  }
  const uint64_t head = unit.kv_head * call_.spec.group_size() + group_head;
  Random random(TokenOfRow(unit.first_row) * call_.spec.num_q_heads + head);
  const RemainderSample sample =
      SampleRemainder({left, num_middle, Logit(call_.spec), state.max[0], call_.plan.samples,
                       random.NextDouble(), part->sums, part->weights},
                      part->indices);
  if (!(sample.mass > 0)) return;
  WeighSample(unit, part->q + group_head * k_padded_, sample.num_drawn, scores, part);
  kernels::InitStates(part->remainder, 1, v_padded_);
  AttendChosen(unit, sample.num_drawn, {.scale = 1.0f}, part->remainder, part);
  const double share = sample.mass / static_cast<double>(sample.num_drawn);
  part->remainder.max[0] += state.max[0] + static_cast<float>(std::log(share));
  kernels::MergeStates(part->remainder, state, 1, v_padded_);
}

}  // namespace attndb::query
