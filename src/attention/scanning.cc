#include "attention/scanning.h"

#include <algorithm>

#include "attention/call_util.h"
#include "common/clock.h"
#include "kernels/select.h"
#include "kernels/weights.h"

namespace attndb::attention {
namespace {

using kernels::kWeightBlock;

static_assert(GroupScorer::kTileTokens % kWeightBlock == 0);
static_assert(kRangeMultiple % kWeightBlock == 0);

}  // namespace

void Scanning::Begin(const CallView& call) {
  call_ = &call;
  parts_.resize(call.num_parts());
  needs_sums_ = call.plan().Estimates() || call.call().search->NeedsSums();
  const size_t num_bounds = static_cast<size_t>(call.call().q.rows()) * call.spec().num_q_heads;
  bounds_.assign(call.plan().Bounds() ? num_bounds : 0, HeadBound());
}

void Scanning::TakeShared(Arena* arena) { shared_ = TakeScores(call_->work().units.size(), arena); }

void Scanning::TakePart(uint32_t part, Arena* arena) {
  Scratch& scratch = parts_[part];
  scratch.scorer.Take(*call_, arena);
  scratch.head = HeadScratch::Take(
      {&call_->plan(), call_->call().search, call_->call().num_tokens, call_->k_padded()}, arena);
  if (!call_->is_shared()) scratch.scores = TakeScores(1, arena);
}

Scanning::Scores Scanning::TakeScores(size_t num_units, Arena* arena) const {
  const size_t num_rows = num_units * call_->group();
  const size_t num_tokens = call_->call().num_tokens;
  const size_t num_blocks = num_rows * kernels::NumWeightBlocks(num_tokens);
  Scores scores;
  scores.scores = arena->Take<float>(num_rows * num_tokens);
  scores.maxima = arena->Take<float>(num_blocks);
  if (needs_sums_) scores.sums = arena->Take<float>(num_blocks);
  return scores;
}

index::ScoreView Scanning::ScoresOf(uint32_t unit, uint32_t group_head, const Part* part) const {
  const bool shared = call_->is_shared();
  const Scores& from = shared ? shared_ : parts_[part->number].scores;
  const size_t num_tokens = call_->call().num_tokens;
  const size_t row = (shared ? unit * call_->group() : 0) + group_head;
  const size_t block = row * kernels::NumWeightBlocks(num_tokens);
  return {from.scores + row * num_tokens, call_->unit(unit).tokens.end, from.maxima + block,
          from.sums == nullptr ? nullptr : from.sums + block};
}

Status Scanning::RunItem(const WorkItem& item, Part* part) {
  const int64_t start_ns = SteadyNowNanos();
  const WorkUnit& unit = call_->unit(item.unit);
  const TokenRange range = unit.Range(item.range);
  GroupScorer& scorer = parts_[part->number].scorer;
  scorer.Begin(unit, part);
  float* const scores = ScoresOf(item.unit, 0, part).scores;
  uint64_t summarized = range.begin;  // Whole blocks; at the end also the rest.
  const auto score = [&](const HeadRun& run, TokenRange tile) -> Status {
    ATTNDB_RETURN_IF_ERROR(
        scorer.Score(run, tile, {scores + tile.begin, call_->call().num_tokens}));
    const uint64_t whole =
        tile.end == range.end ? tile.end : tile.end / kWeightBlock * kWeightBlock;
    if (whole > summarized) Summarize(item.unit, {summarized, whole}, part);
    summarized = std::max(summarized, whole);
    return Status::Ok();
  };
  ATTNDB_RETURN_IF_ERROR(
      ForEachTile<GroupScorer::kTileTokens>(call_->HeadRuns(unit.kv_head), range, score));
  part->cost.score_ns += SteadyNowNanos() - start_ns;
  return Status::Ok();
}

// REQUIRES: tokens.begin is the first of a block.
void Scanning::Summarize(uint32_t unit, TokenRange tokens, const Part* part) const {
  const size_t block = tokens.begin / kWeightBlock;
  for (uint32_t g = 0; g < call_->group(); ++g) {
    const index::ScoreView view = ScoresOf(unit, g, part);
    kernels::SummarizeScores(view.scores + tokens.begin, tokens.end - tokens.begin,
                             Logit(call_->spec()), view.maxima + block,
                             view.sums == nullptr ? nullptr : view.sums + block);
  }
}

Status Scanning::Finish(uint32_t unit_idx, uint32_t group_head, Part* part) {
  const WorkUnit& unit = call_->unit(unit_idx);
  const uint32_t num_q_heads = call_->spec().num_q_heads;
  const uint32_t q_head = unit.kv_head * call_->group() + group_head;
  const HeadCall head_call = {
      .spec = &call_->spec(),
      .plan = &call_->plan(),
      .runs = call_->HeadRuns(unit.kv_head),
      .q = part->q + group_head * call_->k_padded(),
      .num_tokens = unit.tokens.end,
      .middle = call_->Middle(unit.first_row),
      .denominator_logit = call_->DenominatorLogit(q_head),
      .seed = call_->TokenOfRow(unit.first_row) * num_q_heads + q_head,
      .search = call_->call().search,
      .view = ScoresOf(unit_idx, group_head, part),
      .rows = &part->rows,
      .bound = bounds_.empty() ? nullptr : &bounds_[unit.first_row * num_q_heads + q_head]};
  SparseHead head(head_call, parts_[part->number].head, &part->cost);
  return Conclude(&head, unit_idx, group_head, part);
}

}  // namespace attndb::attention
