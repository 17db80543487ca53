// The units of a plan that chooses: scores of all tokens, and who finishes which q head.
#include <algorithm>
#include <limits>

#include "attention/call_util.h"
#include "attention/layer_attention.h"
#include "kernels/score.h"

namespace attndb::attention {
namespace {

using kernels::kWeightBlock;

static_assert(LayerAttention::kTileTokens % kWeightBlock == 0);
static_assert(kRangeMultiple % kWeightBlock == 0);

}  // namespace

void LayerAttention::ScoreRange(const WorkItem& item, Part* part) {
  const WorkUnit& unit = work_.units[item.unit];
  const TokenRange range = unit.Range(item.range);
  float* const scores = ScoresOf(item.unit, 0, part).scores;
  uint64_t summarized = range.begin;  // Whole blocks, and at the end what is left.
  ForEachTile(range, [&](size_t run, TokenRange tile) {
    ScoreTile(unit, run, tile, {scores + tile.begin, call_.num_tokens}, part);
    const uint64_t whole =
        tile.end == range.end ? tile.end : tile.end / kWeightBlock * kWeightBlock;
    if (whole > summarized) Summarize(item.unit, {summarized, whole}, part);
    summarized = std::max(summarized, whole);
  });
}

void LayerAttention::PrepareScan(const index::KeyEstimates& estimates, Part* part) const {
  for (uint32_t g = 0; g < call_.spec.group_size(); ++g) {
    const float* const q = part->q + g * k_padded_;
    part->queries[g] = estimates.Prepare(q, part->spare + g * k_padded_,
                                         part->codes + g * index::QueryCodeBytes(k_padded_));
    part->queries[g].offset -=
        ScoreShift(ScoreError(estimates, call_.plan.bits, q, k_padded_), call_.spec.scale);
  }
}

const index::KeyEstimates* LayerAttention::PreparedEstimates(uint32_t kv_head, size_t run,
                                                             Part* part) const {
  const index::KeyEstimates* const estimates = Estimates(kv_head, run);
  if (estimates != nullptr && part->prepared != estimates) PrepareScan(*estimates, part);
  if (estimates != nullptr) part->prepared = estimates;
  return estimates;
}

void LayerAttention::ScoreTile(const WorkUnit& unit, size_t run, TokenRange tokens,
                               const ScoreRows& out, Part* part) {
  if (PreparedEstimates(unit.kv_head, run, part) == nullptr) {
    ScoreExactly(unit, run, tokens, out, part);
    return;
  }
  const TokenRange middle = Middle(unit.first_row);
  const auto rows_of = [&](TokenRange piece) -> ScoreRows {
    return {out.scores + (piece.begin - tokens.begin), out.stride};
  };
  const TokenRange before = Intersect(tokens, {0, middle.begin});
  const TokenRange inside = Intersect(tokens, middle);
  const TokenRange after = Intersect(tokens, {middle.end, call_.num_tokens});
  ScoreExactly(unit, run, before, rows_of(before), part);
  Estimate(unit, run, inside, rows_of(inside), part);
  ScoreExactly(unit, run, after, rows_of(after), part);
}

void LayerAttention::ScoreExactly(const WorkUnit& unit, size_t run, TokenRange tokens,
                                  const ScoreRows& out, Part* part) {
  const uint64_t num_tokens = tokens.end - tokens.begin;
  if (num_tokens == 0) return;
  kernels::ScoreRows(Keys(unit.kv_head, run, tokens.begin - run_begin_[run]), num_tokens, part->q,
                     k_padded_, call_.spec.group_size(), out.scores, out.stride);
  part->cost.bytes_touched += num_tokens * k_padded_ * DTypeBytes(call_.kv_dtype);
}

void LayerAttention::Estimate(const WorkUnit& unit, size_t run, TokenRange tokens,
                              const ScoreRows& out, Part* part) {
  const uint64_t num_tokens = tokens.end - tokens.begin;
  if (num_tokens == 0) return;
  const index::KeyEstimates& estimates = *Estimates(unit.kv_head, run);
  estimates.Scan(call_.plan.bits, tokens.begin - run_begin_[run], num_tokens, part->queries,
                 call_.spec.group_size(), out.scores, out.stride);
  part->cost.bytes_touched += num_tokens * estimates.ScanBytes(call_.plan.bits);
}

// REQUIRES: tokens.begin is the first of a block.
void LayerAttention::Summarize(uint32_t unit, TokenRange tokens, Part* part) const {
  const size_t block = tokens.begin / kWeightBlock;
  for (uint32_t g = 0; g < call_.spec.group_size(); ++g) {
    const index::ScoreView view = ScoresOf(unit, g, part);
    kernels::SummarizeScores(view.scores + tokens.begin, tokens.end - tokens.begin,
                             Logit(call_.spec), view.maxima + block,
                             view.sums == nullptr ? nullptr : view.sums + block);
  }
}

void LayerAttention::FinishFound(uint32_t unit_idx, Part* part) {
  const WorkUnit& unit = work_.units[unit_idx];
  const uint32_t group = call_.spec.group_size();
  const IndexedCall call = {
      .spec = &call_.spec,
      .search = call_.find,
      .runs = HeadRuns(unit.kv_head),
      .q = {part->q, k_padded_, group},
      .num_tokens = unit.tokens.end,
      .middle = Middle(unit.first_row),
      .found = call_.found == nullptr ? nullptr : call_.found + unit.kv_head * group};
  IndexedGroup(call, part->indexed, &part->cost).Attend(part->states);
  if (call_.found == nullptr) WriteHeads(unit, 0, group, part->states, part);
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

// What weighs nothing, where the layer has none.
float LayerAttention::DenominatorLogit(uint32_t q_head) const {
  const std::vector<float>& logits = call_.spec.denominator_logits;
  return logits.empty() ? -std::numeric_limits<float>::infinity() : logits[q_head];
}

void LayerAttention::FinishHead(uint32_t unit_idx, uint32_t group_head, Part* part) {
  const WorkUnit& unit = work_.units[unit_idx];
  const uint32_t q_head = unit.kv_head * call_.spec.group_size() + group_head;
  const size_t bound = unit.first_row * call_.spec.num_q_heads + q_head;
  const HeadCall call = {.spec = &call_.spec,
                         .plan = &call_.plan,
                         .runs = HeadRuns(unit.kv_head),
                         .q = part->q + group_head * k_padded_,
                         .num_tokens = unit.tokens.end,
                         .middle = Middle(unit.first_row),
                         .denominator_logit = DenominatorLogit(q_head),
                         .seed = TokenOfRow(unit.first_row) * call_.spec.num_q_heads + q_head,
                         .search = call_.search,
                         .view = ScoresOf(unit_idx, group_head, part),
                         .bound = bounds_.empty() ? nullptr : &bounds_[bound],
                         .found = call_.found == nullptr ? nullptr : call_.found + q_head};
  SparseHead(call, part->head, &part->cost).Attend(part->states);
  if (call_.found == nullptr) WriteHeads(unit, group_head, 1, part->states, part);
}

}  // namespace attndb::attention
