#include "attention/group_scorer.h"

#include "attention/call_util.h"

namespace attndb::attention {

void GroupScorer::Take(const CallView& call, Arena* arena) {
  call_ = &call;
  if (call.plan().bits == 0) return;
  codes_ = arena->Take<std::byte>(call.group() * index::QueryCodeBytes(call.k_padded()));
  queries_ = arena->Take<index::EstimateQuery>(call.group());
}

void GroupScorer::Begin(const WorkUnit& unit, Part* part) {
  part_ = part;
  middle_ = call_->Middle(unit.first_row);
  prepared_ = nullptr;
}

std::span<const index::EstimateQuery> GroupScorer::Prepared(const HeadRun& run) {
  const index::KeyEstimates& estimates = *run.estimates;
  const size_t padded = call_->k_padded();
  const uint32_t num_unprepared = prepared_ == &estimates ? 0 : call_->group();
  for (uint32_t g = 0; g < num_unprepared; ++g) {
    const float* const q = part_->q + g * padded;
    queries_[g] =
        estimates.Prepare(q, part_->spare + g * padded, codes_ + g * index::QueryCodeBytes(padded));
    queries_[g].offset -=
        ScoreShift(ScoreError(estimates, call_->plan().bits, q, padded), call_->spec().scale);
  }
  prepared_ = &estimates;
  return {queries_, call_->group()};
}

Status GroupScorer::Score(const HeadRun& run, TokenRange tokens, const GroupScores& to) {
  if (run.estimates == nullptr) {
    return ScoreExactly(run, tokens, to);
  }
  const auto place_of = [&](TokenRange piece) -> GroupScores {
    return {to.scores + (piece.begin - tokens.begin), to.stride};
  };
  const TokenRange before = Intersect(tokens, {0, middle_.begin});
  const TokenRange inside = Intersect(tokens, middle_);
  const TokenRange after = Intersect(tokens, {middle_.end, call_->call().num_tokens});
  ATTNDB_RETURN_IF_ERROR(ScoreExactly(run, before, place_of(before)));
  Estimate(run, inside, place_of(inside));
  const TokenRange rows = {run.RowOf(inside.begin), run.RowOf(inside.end)};
  for (const uint64_t block : run.estimates->outlier_blocks()) {
    const uint64_t first = block * kernels::kWeightBlock;
    const TokenRange piece = Intersect(rows, {first, first + kernels::kWeightBlock});
    const TokenRange exact = {piece.begin + run.origin, piece.end + run.origin};
    if (piece.begin == piece.end) continue;
    ATTNDB_RETURN_IF_ERROR(ScoreExactly(run, exact, place_of(exact)));
  }
  return ScoreExactly(run, after, place_of(after));
}

Status GroupScorer::ScoreExactly(const HeadRun& run, TokenRange tokens, const GroupScores& to) {
  const uint64_t num_tokens = tokens.end - tokens.begin;
  if (num_tokens == 0) return Status::Ok();
  ATTNDB_RETURN_IF_ERROR(
      ScoreRange(run, tokens, {part_->q, call_->k_padded(), call_->group()}, to, &part_->rows));
  part_->cost.bytes_touched += num_tokens * run.k_bytes();
  return Status::Ok();
}

void GroupScorer::Estimate(const HeadRun& run, TokenRange tokens, const GroupScores& to) {
  const uint64_t num_tokens = tokens.end - tokens.begin;
  if (num_tokens == 0) return;
  const uint32_t bits = call_->plan().bits;
  const std::span<const index::EstimateQuery> queries = Prepared(run);
  run.estimates->Scan(bits, run.RowOf(tokens.begin), num_tokens, queries.data(), queries.size(),
                      to.scores, to.stride);
  part_->cost.bytes_touched += num_tokens * run.estimates->ScanBytes(bits);
}

}  // namespace attndb::attention
