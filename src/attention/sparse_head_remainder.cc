// Estimates the tokens that a q head's search left out, from a sample or from means of values.
#include <algorithm>
#include <cmath>
#include <limits>

#include "attention/sparse_head.h"
#include "attention/value_remainder.h"
#include "common/random.h"
#include "kernels/select.h"
#include "kernels/weights.h"

namespace attndb::attention {

using kernels::StateRows;

Status SparseHead::AttendWholeRemainder(const StateRows& state) {
  const TokenRange middle = call_.middle;
  uint32_t* const indices = scratch_.indices;
  const size_t count =
      kernels::SelectRange(call_.view.scores + middle.begin, middle.end - middle.begin,
                           -std::numeric_limits<float>::max(), indices);
  for (size_t i = 0; i < count; ++i) {
    indices[i] += static_cast<uint32_t>(middle.begin);
    scratch_.chosen_scores[i] = call_.view.scores[indices[i]];
  }
  ATTNDB_RETURN_IF_ERROR(ScoreExactly(indices, count, scratch_.chosen_scores));
  return Fold(indices, scratch_.chosen_scores, count, logit(), state);
}

// Whether errors of the scores are so small that they even out over many tokens.
bool SparseHead::EvensOut() const { return ErrorsEvenOut(search_.score_error, call_.spec->scale); }

// Fills the scratch's scores with logits of the drawn tokens. If the scores of the draw are exact,
// or their errors average out, every token represents an equal share of the mass. Else the exact
// score, which costs a row of K, corrects a token's weight: errors then cost precision but add no
// bias (importance sampling).
Status SparseHead::WeighSample(size_t num_drawn, float log_share) {
  float* const logits = scratch_.chosen_scores;
  if (EvensOut()) {
    std::fill_n(logits, num_drawn, log_share);
    return Status::Ok();
  }
  std::copy_n(scratch_.drawn, num_drawn, logits);
  ATTNDB_RETURN_IF_ERROR(ScoreExactly(scratch_.indices, num_drawn, logits));
  for (size_t i = 0; i < num_drawn; ++i) {
    logits[i] = log_share + (kernels::LogitOf(logits[i], logit()) -
                             kernels::LogitOf(scratch_.drawn[i], logit()));
  }
  return Status::Ok();
}

// Folds a sample of the middle tokens that were not chosen into `state`, or all of them if they are
// no more than the sample.
Status SparseHead::AttendSample(size_t num_left, const StateRows& state) {
  const RemainderCall remainder = {call_.view,   call_.middle,    logit(),
                                   state.max[0], scratch_.masses, scratch_.weights};
  RemainderDraw draw = {RemainderMass(remainder), call_.plan->samples};
  if (!(draw.mass > 0)) return Status::Ok();
  cost_->AddMassLeft(draw.mass, WholeSum(state));
  if (num_left <= draw.num_samples) {
    return AttendWholeRemainder(state);
  }
  draw.offset = Random(call_.seed).NextDouble();
  DrawRemainder(remainder, draw, scratch_.indices);
  for (size_t i = 0; i < draw.num_samples; ++i) {
    scratch_.drawn[i] = call_.view.scores[scratch_.indices[i]];
  }
  const double share = draw.mass / static_cast<double>(draw.num_samples);
  ATTNDB_RETURN_IF_ERROR(
      WeighSample(draw.num_samples, remainder.max + static_cast<float>(std::log(share))));
  return Fold(scratch_.indices, scratch_.chosen_scores, draw.num_samples, {.scale = 1.0f}, state);
}

Status SparseHead::AttendValues(const StateRows& state) {
  ATTNDB_ASSIGN_OR_RETURN(const double mass,
                          FoldValueRemainder({.runs = call_.runs,
                                              .scores = call_.view.scores,
                                              .middle = call_.middle,
                                              .logit = logit(),
                                              .tokens = scratch_.indices,
                                              .token_scores = scratch_.chosen_scores,
                                              .rows = call_.rows},
                                             state, cost_));
  if (mass > 0) cost_->AddMassLeft(mass, WholeSum(state) - mass);
  return Status::Ok();
}

Status SparseHead::AttendRemainder(size_t num_left, const StateRows& state) {
  if (call_.plan->remainder == planner::Remainder::kSample) {
    return AttendSample(num_left, state);
  }
  return AttendValues(state);
}

}  // namespace attndb::attention
