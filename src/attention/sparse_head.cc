#include "attention/sparse_head.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "attention/call_util.h"
#include "attention/static_tokens.h"
#include "attention/value_remainder.h"
#include "common/clock.h"
#include "common/log_sum.h"
#include "index/mass_cut.h"
#include "kernels/select.h"

namespace attndb::attention {
namespace {

using kernels::StateRows;

// Whether the result of a search over estimates must be audited.
bool IsAudited(const planner::LayerPlan& plan, const index::CriticalSearch& search) {
  return plan.bits != 0 && search.share() > 0;
}

// Describes the scores: exact, or with the largest error of any run.
index::SearchCall DescribeSearch(const HeadCall& call) {
  index::SearchCall search = {call.view, call.middle};
  search.score_error = LargestScoreError(call.runs, call.plan->bits, call.q);
  search.score_shift = ScoreShift(search.score_error, call.spec->scale);
  search.denominator_logit = call.denominator_logit;
  return search;
}

}  // namespace

HeadScratch HeadScratch::Take(const HeadScratchSize& size, Arena* arena) {
  const uint64_t num_tokens = size.num_tokens;
  HeadScratch scratch;
  scratch.indices = arena->Take<uint32_t>(index::CriticalSearch::NumIndices(num_tokens));
  scratch.chosen_scores = arena->Take<float>(num_tokens);
  scratch.select = arena->Take<std::byte>(size.search->ScratchBytes(num_tokens));
  if (size.plan->HasStatic()) {
    const uint64_t num_static = std::min<uint64_t>(size.plan->num_static, num_tokens);
    scratch.statics = arena->Take<uint32_t>(num_static);
    scratch.static_scores = arena->Take<float>(num_static);
    scratch.static_bits = arena->Take<uint64_t>(NumStaticWords(num_tokens));
  }
  const bool is_audited = IsAudited(*size.plan, *size.search);
  const size_t num_blocks = kernels::NumWeightBlocks(num_tokens);
  if (size.plan->Bounds() || is_audited) {
    scratch.spare = arena->Take<float>(size.k_padded);
    scratch.codes = arena->Take<std::byte>(index::QueryCodeBytes(size.k_padded));
  }
  if (size.plan->Estimates() || is_audited) {
    scratch.drawn = arena->Take<float>(num_tokens);
    scratch.masses = arena->Take<float>(num_blocks);
  }
  if (size.plan->Estimates()) scratch.weights = arena->Take<float>(kernels::kWeightBlock);
  if (is_audited) {
    float* const lifts = arena->Take<float>(num_blocks);
    scratch.audit = {scratch.spare, scratch.codes, scratch.masses, lifts, scratch.drawn};
  }
  return scratch;
}

SparseHead::SparseHead(const HeadCall& call, const HeadScratch& scratch, CallCost* cost)
    : call_(call),
      scratch_(scratch),
      cost_(cost),
      v_padded_(kernels::RowElements(call.spec->v_head_dim)),
      search_(DescribeSearch(call)) {}

double SparseHead::WholeSum(const StateRows& state) const {
  const double denominator = std::exp(double{call_.denominator_logit} - double{state.max[0]});
  return double{state.sum[0]} + denominator;
}

// Lists and scores the static tokens. To the search they are no tokens, but their weight is there.
Status SparseHead::HideStatic() {
  if (!call_.plan->HasStatic()) return Status::Ok();
  const size_t most = std::min<uint64_t>(call_.plan->num_static, call_.num_tokens);
  num_static_ =
      ListStatic(call_.runs, call_.middle, most, {scratch_.statics, scratch_.static_bits});
  const index::ScoreView& view = call_.view;
  float* const scores = scratch_.static_scores;
  for (size_t i = 0; i < num_static_; ++i) scores[i] = view.scores[scratch_.statics[i]];
  if (search_.score_error != 0) {
    ATTNDB_RETURN_IF_ERROR(ScoreExactly(scratch_.statics, num_static_, scores));
  }
  const double log_mass = index::LogMassOf(scores, num_static_, logit(), scratch_.chosen_scores);
  search_.denominator_logit =
      static_cast<float>(AddLogs(double{search_.denominator_logit}, log_mass));
  search_.hidden_max = kernels::MaxScore(scores, num_static_);
  view.Hide(statics());
  return Status::Ok();
}

// Merges the static tokens into the critical ones. Returns how many they are.
size_t SparseHead::AddStatic(uint32_t* critical, size_t num_critical) const {
  size_t from = num_critical;
  size_t left = num_static_;
  for (size_t to = num_critical + num_static_; left > 0; --to) {
    const bool takes_static = from == 0 || critical[from - 1] < scratch_.statics[left - 1];
    critical[to - 1] = takes_static ? scratch_.statics[--left] : critical[--from];
  }
  return num_critical + num_static_;
}

// Puts sinks before and window after the middle tokens in the scratch's indices, and the scores of
// all into its scores. Returns how many they are.
size_t SparseHead::ListChosen(size_t num_middle) {
  const TokenRange middle = call_.middle;
  uint32_t* const first = scratch_.indices + middle.begin;
  std::iota(scratch_.indices, first, 0u);
  uint32_t* const window = first + num_middle;
  uint32_t* const end = window + (call_.num_tokens - middle.end);
  std::iota(window, end, static_cast<uint32_t>(middle.end));
  const auto num_chosen = static_cast<size_t>(end - scratch_.indices);
  for (size_t i = 0; i < num_chosen; ++i) {
    scratch_.chosen_scores[i] = call_.view.scores[scratch_.indices[i]];
  }
  uint32_t* place = first;
  for (size_t i = 0; i < num_static_; ++i) {
    place = std::lower_bound(place, window, scratch_.statics[i]);
    scratch_.chosen_scores[place - scratch_.indices] = scratch_.static_scores[i];
  }
  return num_chosen;
}

Result<size_t> SparseHead::FindCritical() {
  ATTNDB_RETURN_IF_ERROR(HideStatic());
  uint32_t* const critical = scratch_.indices + call_.middle.begin;
  ATTNDB_ASSIGN_OR_RETURN(const size_t num_critical, ChooseCritical(critical));
  cost_->num_selected += num_critical;
  return num_critical;
}

// Chooses the attended tokens, and marks those of the middle in the view, for the remainder.
Result<size_t> SparseHead::Choose() {
  uint32_t* const critical = scratch_.indices + call_.middle.begin;
  ATTNDB_ASSIGN_OR_RETURN(const size_t num_critical, FindCritical());
  const size_t num_middle = AddStatic(critical, num_critical);
  const size_t num_chosen = ListChosen(num_middle);
  if (!call_.plan->Estimates() && !call_.plan->Bounds()) return num_chosen;
  for (size_t i = 0; i < num_middle; ++i) {
    call_.view.scores[critical[i]] = -std::numeric_limits<float>::infinity();
    call_.view.MarkChanged(critical[i]);
  }
  return num_chosen;
}

// Tokens of the middle; not the static ones, which a search that takes all that there is takes too.
size_t SparseHead::Search(uint32_t* indices) const {
  const size_t found = call_.search->Search(search_, indices, scratch_.select);
  return DropStatic(statics(), indices, found);
}

bool SparseHead::HoldsMass(std::span<const uint32_t> chosen, const float* exact) const {
  const TokenRange middle = call_.middle;
  if (chosen.size() + num_static_ == middle.end - middle.begin) return true;
  const double left = AuditLeftShare({.runs = call_.runs,
                                      .bits = call_.plan->bits,
                                      .q = call_.q,
                                      .view = call_.view,
                                      .middle = middle,
                                      .chosen = chosen,
                                      .exact = exact,
                                      .logit = logit(),
                                      .denominator_logit = search_.denominator_logit},
                                     scratch_.audit);
  return 1 - left >= index::LeastAudited(call_.search->share());
}

// From now on all scores are exact.
Status SparseHead::ScoreMiddle() {
  const index::ScoreView& view = call_.view;
  for (const HeadRun& run : call_.runs) {
    const TokenRange tokens = Intersect(run.tokens, call_.middle);
    if (run.estimates == nullptr || tokens.begin == tokens.end) continue;
    ATTNDB_RETURN_IF_ERROR(
        ScoreRange(run, tokens, {call_.q, 0, 1}, {view.scores + tokens.begin, 0}, call_.rows));
    cost_->num_candidates += tokens.end - tokens.begin;
    cost_->bytes_touched += (tokens.end - tokens.begin) * run.k_bytes();
  }
  kernels::SummarizeScores(view.scores, view.num_tokens, logit(), view.maxima, view.sums);
  view.Hide(statics());
  search_.score_error = search_.score_shift = 0;
  NoteFallback();
  return Status::Ok();
}

// A query counts once, though it may do both.
void SparseHead::NoteFallback() {
  cost_->num_fallbacks += static_cast<uint64_t>(!fell_back_);
  fell_back_ = true;
}

Result<size_t> SparseHead::ChooseCritical(uint32_t* indices) {
  const size_t count = Search(indices);
  if (search_.score_error == 0) return count;
  float* const exact = scratch_.chosen_scores;
  float* const scores = call_.view.scores;
  for (size_t i = 0; i < count; ++i) exact[i] = scores[indices[i]];
  ATTNDB_RETURN_IF_ERROR(ScoreExactly(indices, count, exact));
  if (IsAudited(*call_.plan, *call_.search) && !HoldsMass({indices, count}, exact)) {
    ATTNDB_RETURN_IF_ERROR(ScoreMiddle());
    return Search(indices);
  }
  for (size_t i = 0; i < count; ++i) {
    scores[indices[i]] = exact[i];
    call_.view.MarkChanged(indices[i]);
  }
  const TokenRange middle = call_.middle;
  const float max = std::max({search_.hidden_max, kernels::MaxScore(scores, middle.begin),
                              kernels::MaxScore(scores + middle.end, call_.num_tokens - middle.end),
                              kernels::MaxScore(exact, count)});
  return call_.search->Refine(search_, max, indices, count, scratch_.select);
}

Result<LeftBound> SparseHead::BoundChosen(size_t num_chosen) {
  if (num_chosen == call_.num_tokens) return LeftBound();
  return BoundLeft({call_.runs,
                    fell_back_ ? 0 : call_.plan->bits,
                    call_.q,
                    call_.view.scores,
                    call_.middle,
                    {scratch_.chosen_scores, num_chosen},
                    logit(),
                    scratch_.spare,
                    scratch_.codes,
                    call_.denominator_logit,
                    call_.rows},
                   cost_);
}

// left: nothing where all was attended to instead. state: of the chosen.
void SparseHead::NoteBound(const LeftBound& left, const StateRows& state) {
  double square = 0;
  for (size_t d = 0; d < v_padded_; ++d) square += double{state.out[d]} * double{state.out[d]};
  *call_.bound = {left.share, left.OfOutput(std::sqrt(square) / WholeSum(state))};
  cost_->AddBound(double{call_.bound->mass}, double{call_.bound->out});
}

Status SparseHead::ScoreExactly(uint32_t* indices, size_t count, float* scores) {
  return ScoreListed(call_.runs, {indices, count}, {call_.q, 0, 1}, {scores, count}, call_.rows,
                     cost_);
}

Status SparseHead::Fold(uint32_t* indices, const float* scores, size_t count,
                        const kernels::LogitSpec& logit, const StateRows& state) {
  return AttendListed(call_.runs, {indices, count}, {scores, count}, logit, /*by_codes=*/false,
                      state, call_.rows, cost_);
}

Result<SelectedTokens> SparseHead::Select() {
  ++cost_->num_queries;
  const int64_t start_ns = SteadyNowNanos();
  ATTNDB_ASSIGN_OR_RETURN(const size_t count, FindCritical());
  const uint32_t* const critical = scratch_.indices + call_.middle.begin;
  for (size_t i = 0; i < count; ++i) {
    scratch_.chosen_scores[i] = call_.view.scores[critical[i]];
  }
  cost_->select_ns += SteadyNowNanos() - start_ns;
  return SelectedTokens{critical, scratch_.chosen_scores, count};
}

Status SparseHead::Attend(const StateRows& state) {
  ++cost_->num_queries;
  const int64_t start_ns = SteadyNowNanos();
  ATTNDB_ASSIGN_OR_RETURN(const size_t num_chosen, Choose());
  const bool bounds = call_.plan->Bounds();
  LeftBound left;
  if (bounds) {
    ATTNDB_ASSIGN_OR_RETURN(left, BoundChosen(num_chosen));
  }
  const bool attends_to_all = bounds && double{left.share} > call_.plan->exact_fallback;
  const int64_t chosen_ns = SteadyNowNanos();
  cost_->select_ns += chosen_ns - start_ns;
  kernels::InitStates(state, 1, v_padded_);
  if (attends_to_all) {
    ATTNDB_RETURN_IF_ERROR(AttendAll(call_.runs, call_.num_tokens, {call_.q, 0, 1}, logit(), state,
                                     call_.rows, cost_));
    NoteFallback();
    left = {};
  } else {
    ATTNDB_RETURN_IF_ERROR(
        Fold(scratch_.indices, scratch_.chosen_scores, num_chosen, logit(), state));
  }
  if (bounds) NoteBound(left, state);
  const size_t num_left = call_.num_tokens - num_chosen;
  if (call_.plan->Estimates() && num_left > 0) {
    ATTNDB_RETURN_IF_ERROR(AttendRemainder(num_left, state));
  }
  cost_->attend_ns += SteadyNowNanos() - chosen_ns;
  return Status::Ok();
}

}  // namespace attndb::attention
