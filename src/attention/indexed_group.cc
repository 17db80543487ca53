#include "attention/indexed_group.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "attention/call_util.h"
#include "attention/static_tokens.h"
#include "common/clock.h"
#include "common/infinity.h"
#include "common/log_sum.h"
#include "index/mass_cut.h"
#include "kernels/select.h"
#include "kernels/weights.h"

namespace attndb::attention {
namespace {

using kernels::StateRows;

bool IsSearched(const HeadRun& run, TokenRange range) {
  const TokenRange tokens = Intersect(range, run.tokens);
  return run.index != nullptr && tokens.begin < tokens.end;
}

// Lists the runs with an index that hold tokens of the range. Returns how many.
size_t ListIndexes(std::span<const HeadRun> runs, TokenRange range, index::IndexRun* list) {
  size_t count = 0;
  for (const HeadRun& run : runs) {
    if (!IsSearched(run, range)) continue;
    const TokenRange tokens = Intersect(range, run.tokens);
    list[count++] = {.index = run.index,
                     .strip = run.k_strip(),
                     .keys = {nullptr, run.k_elements, run.k_elements, run.dtype},
                     .first_visible = run.RowOf(tokens.begin),
                     .num_visible = run.RowOf(tokens.end),
                     .first_token = static_cast<uint32_t>(run.origin)};
  }
  return count;
}

}  // namespace

IndexedScratch IndexedScratch::Take(uint32_t group, uint64_t num_places, size_t num_runs,
                                    size_t search_bytes, Arena* arena) {
  IndexedScratch scratch;
  scratch.stride = num_places + kernels::kSelectSlack;
  scratch.tokens = arena->Take<uint32_t>(group * scratch.stride);
  scratch.scores = arena->Take<float>(group * scratch.stride);
  scratch.fixed_scores = arena->Take<float>(group * scratch.stride);
  scratch.fixed = arena->Take<uint32_t>(scratch.stride);
  scratch.selected = arena->Take<uint32_t>(scratch.stride);
  scratch.best = arena->Take<float>(group);
  scratch.log_fixed = arena->Take<double>(group);
  scratch.weights = arena->Take<float>(scratch.stride);
  scratch.static_bits = arena->Take<uint64_t>(NumStaticWords(num_places));
  scratch.count = arena->Take<size_t>(group);
  scratch.found = arena->Take<index::FoundKeys>(group);
  scratch.runs = arena->Take<index::IndexRun>(num_runs);
  scratch.select = arena->Take<std::byte>(kernels::SelectTopKScratchBytes(num_places));
  scratch.search = arena->Take<std::byte>(search_bytes);
  return scratch;
}

// Assumes that all tokens are in the middle.
size_t IndexedGroup::SearchBytes(std::span<const HeadRun> runs, const index::SearchSpec& search,
                                 uint64_t num_tokens, uint32_t group,
                                 std::vector<index::IndexRun>* list) {
  list->resize(runs.size());
  const size_t count = ListIndexes(runs, {0, num_tokens}, list->data());
  if (count == 0) return 0;
  index::IndexCall call;
  call.spec = search;
  call.runs = {list->data(), count};
  call.num_q_rows = group;
  return (*list)[0].index->ScratchBytes(call);
}

IndexedGroup::IndexedGroup(const IndexedCall& call, const IndexedScratch& scratch, CallCost* cost)
    : call_(call),
      scratch_(scratch),
      cost_(cost),
      group_(call.spec->group_size()),
      v_padded_(kernels::RowElements(call.spec->v_head_dim)) {
  std::fill_n(scratch_.best, group_, -kInfinity);
  std::fill_n(scratch_.count, group_, size_t{0});
}

// Scores tokens of one run: the scores of q head g are at scores + g * stride.
Status IndexedGroup::ScoreRange(const HeadRun& run, TokenRange tokens, float* scores) {
  cost_->bytes_touched += (tokens.end - tokens.begin) * run.k_bytes();
  return attention::ScoreRange(run, tokens, call_.q, {scores, scratch_.stride}, call_.rows);
}

void IndexedGroup::RaiseBest(uint32_t head, const float* scores, size_t count) {
  scratch_.best[head] = std::max(scratch_.best[head], kernels::MaxScore(scores, count));
}

Status IndexedGroup::ScoreFixed(TokenRange tokens) {
  for (const HeadRun& run : call_.runs) {
    const TokenRange piece = Intersect(tokens, run.tokens);
    const size_t count = piece.end - piece.begin;
    if (count == 0) continue;
    ATTNDB_RETURN_IF_ERROR(ScoreRange(run, piece, scratch_.fixed_scores + num_fixed_));
    for (uint32_t head = 0; head < group_; ++head) {
      RaiseBest(head, fixed_scores(head) + num_fixed_, count);
    }
    for (uint64_t token = piece.begin; token < piece.end; ++token) {
      scratch_.fixed[num_fixed_++] = static_cast<uint32_t>(token);
    }
  }
  return Status::Ok();
}

// Puts the static tokens behind the sinks, of which all scores are there.
Status IndexedGroup::ScoreStatic() {
  if (call_.num_static == 0) return Status::Ok();
  uint32_t* const statics = scratch_.fixed + num_fixed_;
  num_static_ =
      ListStatic(call_.runs, call_.middle, call_.num_static, {statics, scratch_.static_bits});
  ATTNDB_RETURN_IF_ERROR(ReadScores(call_.runs, {statics, num_static_}, call_.q,
                                    {scratch_.fixed_scores + num_fixed_, scratch_.stride},
                                    call_.rows, cost_));
  for (uint32_t head = 0; head < group_; ++head) {
    RaiseBest(head, fixed_scores(head) + num_fixed_, num_static_);
  }
  num_fixed_ += num_static_;
  return Status::Ok();
}

// Removes static tokens from the list.
void IndexedGroup::DropStaticOf(uint32_t head) {
  if (num_static_ == 0) return;
  const std::span<const uint32_t> all = statics();
  const size_t listed = scratch_.count[head];
  size_t count = 0;
  size_t num_found = 0;
  for (size_t i = 0; i < listed; ++i) {
    const uint32_t token = tokens_of(head)[i];
    if (std::binary_search(all.begin(), all.end(), token)) continue;
    num_found += i < scratch_.found[head].count ? 1 : 0;
    tokens_of(head)[count] = token;
    scores(head)[count++] = scores(head)[i];
  }
  scratch_.found[head].count = num_found;
  scratch_.count[head] = count;
}

// Tokens that no index covers: all of them may be critical.
Status IndexedGroup::AddAll(const HeadRun& run, TokenRange tokens) {
  const size_t count = tokens.end - tokens.begin;
  // Heads have lists of unequal length, so scores go to a place that is free for all of them.
  float* const free = scratch_.fixed_scores + num_fixed_;
  ATTNDB_RETURN_IF_ERROR(ScoreRange(run, tokens, free));
  for (uint32_t head = 0; head < group_; ++head) {
    const float* const from = free + head * scratch_.stride;
    const size_t at = scratch_.count[head];
    std::copy_n(from, count, scores(head) + at);
    for (size_t i = 0; i < count; ++i) {
      tokens_of(head)[at + i] = static_cast<uint32_t>(tokens.begin + i);
    }
    scratch_.count[head] += count;
    RaiseBest(head, from, count);
  }
  return Status::Ok();
}

// Appends found tokens to the list.
Status IndexedGroup::SearchIndexes() {
  for (uint32_t head = 0; head < group_; ++head) {
    const size_t listed = scratch_.count[head];
    scratch_.found[head] = {tokens_of(head) + listed, scores(head) + listed, 0};
  }
  const size_t num_runs = ListIndexes(call_.runs, call_.middle, scratch_.runs);
  if (num_runs == 0) return Status::Ok();
  index::IndexCall call;
  call.spec = call_.search;
  call.spec.k += call_.num_spare;
  call.spec.spare = call_.num_spare;
  call.runs = {scratch_.runs, num_runs};
  call.q = call_.q.q;
  call.q_stride = call_.q.stride;
  call.num_q_rows = group_;
  call.best = scratch_.best;
  call.log_fixed = scratch_.log_fixed;
  call.rows = call_.rows;
  index::SearchCost cost;
  ATTNDB_RETURN_IF_ERROR(
      scratch_.runs[0].index->Search(call, scratch_.search, scratch_.found, &cost));
  for (uint32_t head = 0; head < group_; ++head) {
    const index::FoundKeys& found = scratch_.found[head];
    scratch_.count[head] += found.count;
    RaiseBest(head, found.scores, found.count);
  }
  cost_->bytes_touched += cost.bytes_touched;
  cost_->num_candidates += cost.rows_read * group_;
  cost_->num_visited += cost.keys_scored;
  cost_->num_clusters += cost.clusters;
  cost_->num_hops += cost.hops;
  cost_->num_full_scans += cost.full_scans;
  return Status::Ok();
}

Status IndexedGroup::AddOthers() {
  for (const HeadRun& run : call_.runs) {
    const TokenRange tokens = Intersect(call_.middle, run.tokens);
    const uint64_t first_row = run.RowOf(run.tokens.begin);
    const uint64_t not_covered = run.index == nullptr
                                     ? run.RowOf(run.tokens.end)
                                     : std::max<uint64_t>(first_row, run.index->first_key());
    const TokenRange others =
        Intersect(tokens, {run.tokens.begin, run.tokens.begin + (not_covered - first_row)});
    if (others.begin < others.end) ATTNDB_RETURN_IF_ERROR(AddAll(run, others));
  }
  return Status::Ok();
}

// A search that knows the best score of all other tokens. They are scored before it, and then moved
// behind the found tokens, as in other searches.
Status IndexedGroup::SearchSeeded() {
  ATTNDB_RETURN_IF_ERROR(AddOthers());
  const size_t num_others = scratch_.count[0];  // Tokens of each head.
  ATTNDB_RETURN_IF_ERROR(SearchIndexes());
  for (uint32_t head = 0; head < group_; ++head) {
    const size_t count = scratch_.count[head];
    std::rotate(tokens_of(head), tokens_of(head) + num_others, tokens_of(head) + count);
    std::rotate(scores(head), scores(head) + num_others, scores(head) + count);
  }
  return Status::Ok();
}

double IndexedGroup::LogMass(const float* scores, size_t count) const {
  return index::LogMassOf(scores, count, call_.search.logit, scratch_.weights);
}

// The mass of sinks, window and denominators. The search's estimate of the mass includes static
// tokens.
void IndexedGroup::FindFixedMass() {
  const size_t num_sinks = call_.middle.begin;
  for (uint32_t head = 0; head < group_; ++head) {
    const float* const scores = fixed_scores(head);
    if (num_static_ == 0) {
      scratch_.log_fixed[head] = LogMass(scores, num_fixed_);
    } else {
      const size_t window = num_sinks + num_static_;
      scratch_.log_fixed[head] =
          AddLogs(LogMass(scores, num_sinks), LogMass(scores + window, num_fixed_ - window));
    }
    if (call_.denominator_logits == nullptr) continue;
    scratch_.log_fixed[head] =
        AddLogs(scratch_.log_fixed[head], double{call_.denominator_logits[head]});
  }
}

// The mass of the tokens that are always attended to.
double IndexedGroup::LogAttended(uint32_t head) const {
  if (num_static_ == 0) return scratch_.log_fixed[head];
  const float* const scores = fixed_scores(head) + call_.middle.begin;
  return AddLogs(scratch_.log_fixed[head], LogMass(scores, num_static_));
}

// Tokens of the indexes that were not found have the weight that the search estimated. Static
// tokens, which may be listed, are attended to already.
size_t IndexedGroup::SelectMass(uint32_t head, const float* scores, size_t listed) {
  const auto select_all = [&] {
    std::iota(scratch_.selected, scratch_.selected + listed, 0u);
    return listed;
  };
  const size_t num_found = scratch_.found[head].count;
  const double others = LogMass(scores + num_found, listed - num_found);
  const double middle = AddLogs(scratch_.found[head].log_mass, others);
  const double all = AddLogs(middle, scratch_.log_fixed[head]);
  const double attended = LogAttended(head);
  if (attended >= std::log(call_.search.p) + all) return 0;  // However heavy it is.
  const float max_logit = kernels::LogitOf(scratch_.best[head], call_.search.logit);
  const double need =
      call_.search.p * std::exp(all - double{max_logit}) - std::exp(attended - double{max_logit});
  if (!std::isfinite(need)) return select_all();
  if (need <= 0) return 0;
  kernels::ExpWeights(scores, listed, call_.search.logit, max_logit, scratch_.weights);
  if (num_static_ > 0) {
    for (size_t i = 0; i < listed; ++i) {
      if (std::ranges::binary_search(statics(), tokens_of(head)[i])) scratch_.weights[i] = 0;
    }
  }
  index::MassCut cut = index::FindMassCut(scratch_.weights, listed, need);
  size_t count = 0;
  for (size_t i = 0; i < listed; ++i) {
    scratch_.selected[count] = static_cast<uint32_t>(i);
    count += static_cast<size_t>(cut.Takes(scratch_.weights[i]));
  }
  return count;
}

// Keeps the tokens that are critical by the scores of all runs.
void IndexedGroup::Filter(uint32_t head) {
  const bool by_mass = call_.search.kind == index::SearchKind::kMass;
  if (!by_mass) DropStaticOf(head);
  const size_t listed = scratch_.count[head];
  float* const head_scores = scores(head);
  size_t count = 0;
  if (call_.search.kind == index::SearchKind::kSelected) {
    cost_->num_selected += listed;
    return;
  }
  if (call_.search.kind == index::SearchKind::kTopK) {
    count = kernels::SelectTopK(head_scores, listed, call_.search.k, scratch_.selected,
                                scratch_.select);
  } else if (by_mass) {
    count = SelectMass(head, head_scores, listed);
  } else {
    count = kernels::SelectRange(head_scores, listed, scratch_.best[head] - call_.search.beta,
                                 scratch_.selected);
  }
  size_t num_found = 0;
  for (size_t i = 0; i < count; ++i) {  // Places ascend, so none is overwritten before it is read.
    num_found += scratch_.selected[i] < scratch_.found[head].count ? 1 : 0;
    tokens_of(head)[i] = tokens_of(head)[scratch_.selected[i]];
    head_scores[i] = head_scores[scratch_.selected[i]];
  }
  scratch_.found[head].count = num_found;
  scratch_.count[head] = count;
  if (by_mass) DropStaticOf(head);
  cost_->num_selected += scratch_.count[head];
}

Status IndexedGroup::Select() {
  const int64_t start_ns = SteadyNowNanos();
  cost_->num_queries += group_;
  ATTNDB_RETURN_IF_ERROR(ScoreFixed({0, call_.middle.begin}));
  ATTNDB_RETURN_IF_ERROR(ScoreStatic());
  ATTNDB_RETURN_IF_ERROR(ScoreFixed({call_.middle.end, call_.num_tokens}));
  if (call_.search.kind == index::SearchKind::kMass) FindFixedMass();
  if (call_.search.range_walk == index::RangeWalk::kListOrder) {
    ATTNDB_RETURN_IF_ERROR(SearchSeeded());
  } else {
    ATTNDB_RETURN_IF_ERROR(SearchIndexes());
    ATTNDB_RETURN_IF_ERROR(AddOthers());
  }
  for (uint32_t head = 0; head < group_; ++head) Filter(head);
  cost_->select_ns += SteadyNowNanos() - start_ns;
  return Status::Ok();
}

// Adds an index's own estimate of the unselected keys.
void IndexedGroup::AddRest(uint32_t head, const StateRows& state) const {
  index::FoundKeys& found = scratch_.found[head];
  if (found.rest == nullptr) return;
  float sum = 1.0f;
  kernels::MergeStates({&found.rest_lse, &sum, found.rest, v_padded_}, state, 1, v_padded_);
}

Status IndexedGroup::Attend(const StateRows& states) {
  const int64_t start_ns = SteadyNowNanos();
  const kernels::LogitSpec logit = Logit(*call_.spec);
  kernels::InitStates(states, group_, v_padded_);
  ATTNDB_RETURN_IF_ERROR(AttendListed(call_.runs, {scratch_.fixed, num_fixed_},
                                      {scratch_.fixed_scores, scratch_.stride, group_}, logit,
                                      /*by_codes=*/false, states, call_.rows, cost_));
  for (uint32_t head = 0; head < group_; ++head) {
    const StateRows state = kernels::StatesFrom(states, head);
    const size_t num_found = scratch_.found[head].count;
    // Each part goes run by run.
    ATTNDB_RETURN_IF_ERROR(AttendListed(call_.runs, {tokens_of(head), num_found},
                                        {scores(head), 0, 1}, logit,
                                        /*by_codes=*/false, state, call_.rows, cost_));
    ATTNDB_RETURN_IF_ERROR(AttendListed(
        call_.runs, {tokens_of(head) + num_found, scratch_.count[head] - num_found},
        {scores(head) + num_found, 0, 1}, logit, /*by_codes=*/false, state, call_.rows, cost_));
    AddRest(head, state);
  }
  if (call_.estimated_share > 0) EstimateRest(states);
  cost_->attend_ns += SteadyNowNanos() - start_ns;
  return Status::Ok();
}

// Folds estimates of the unattended tokens into the heads' states.
void IndexedGroup::EstimateRest(const StateRows& states) {
  const ClusterRemainderCall rest = {.runs = call_.runs,
                                     .q = call_.q,
                                     .num_tokens = call_.num_tokens,
                                     .logit = Logit(*call_.spec),
                                     .share = call_.estimated_share};
  ClusterRemainder remainder(rest, scratch_.clusters, cost_);
  for (uint32_t head = 0; head < group_; ++head) {
    const StateRows state = kernels::StatesFrom(states, head);
    remainder.Begin(head);
    remainder.Take({scratch_.fixed, fixed_scores(head), num_fixed_});
    remainder.Take(selected(head));
    const double mass = remainder.Fold(scratch_.best[head], state);
    if (!(mass > 0)) continue;
    double attended = double{state.sum[0]} - mass;
    if (call_.denominator_logits != nullptr) {
      attended += std::exp(double{call_.denominator_logits[head]} - double{state.max[0]});
    }
    cost_->AddMassLeft(mass, attended);
  }
}

}  // namespace attndb::attention
