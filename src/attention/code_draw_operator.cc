#include "attention/code_draw_operator.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "attention/call_util.h"
#include "common/clock.h"
#include "common/lane_sum.h"
#include "index/key_index.h"
#include "kernels/weight_words.h"
#include "kernels/weights.h"

namespace attndb::attention {

namespace {

// Tokens of a run without codes that are scored at a time.
constexpr uint64_t kScoredTokens = 1024;

// The bits of a bfloat16 near exp(log), within the range of weights.
uint16_t WordOf(float log) {
  const float word = float{kernels::kWordOfOne} + static_cast<float>(kernels::kWordsOfNat) * log;
  const auto least = static_cast<float>(kernels::kLeastWeight);
  const auto largest = static_cast<float>(kernels::kLargestWeight);
  return static_cast<uint16_t>(std::clamp(word, least, largest));
}

const index::WeighIndex* CodesOf(const HeadRun& run) {
  return run.index == nullptr ? nullptr : run.index->weighs();
}

}  // namespace

void CodeDrawOperator::Begin(const CallView& call) {
  call_ = &call;
  parts_.resize(call.num_parts());
}

size_t CodeDrawOperator::num_words() const {
  return call_->call().num_tokens + 2 * call_->num_runs() * kBlockTokens;
}

CodeDrawOperator::Weights CodeDrawOperator::TakeWeights(size_t num_units, Arena* arena) const {
  const size_t group = call_->group();
  const size_t num_pieces = call_->work().num_ranges_max * call_->num_runs();
  Weights weights;
  weights.words = arena->Take<uint16_t>(num_units * group * num_words());
  weights.references = arena->Take<float>(num_units * num_pieces * group);
  weights.sums = arena->Take<float>(num_units * num_pieces * group);
  return weights;
}

void CodeDrawOperator::TakeShared(Arena* arena) {
  shared_ = TakeWeights(call_->work().units.size(), arena);
}

void CodeDrawOperator::TakePart(uint32_t part, Arena* arena) {
  const uint32_t group = call_->group();
  const uint64_t num_tokens = call_->call().num_tokens;
  Scratch& scratch = parts_[part];
  if (!call_->is_shared()) scratch.weights = TakeWeights(1, arena);
  size_t weigh_bytes = 0;
  for (uint32_t head = 0; head < call_->spec().num_kv_heads; ++head) {
    for (const HeadRun& run : call_->HeadRuns(head)) {
      const index::WeighIndex* const codes = CodesOf(run);
      if (codes == nullptr) continue;
      weigh_bytes = std::max(weigh_bytes, codes->WeighScratchBytes(group));
    }
  }
  scratch.weigh = arena->Take<std::byte>(weigh_bytes);
  scratch.scores = arena->Take<float>(group * kScoredTokens);
  scratch.block_sums = arena->Take<float>(group * (num_words() / kBlockTokens));
  scratch.pieces = arena->Take<WeighedTokens>(call_->work().num_ranges_max * call_->num_runs());
  const planner::LayerPlan& plan = call_->plan();
  const uint64_t num_fixed = std::min<uint64_t>(num_tokens, uint64_t{plan.sink} + plan.window);
  scratch.draw = PhasedScratch::Take(group, num_tokens, num_fixed, call_->v_padded(), arena);
}

CodeDrawOperator::Weights CodeDrawOperator::WeightsOf(uint32_t unit, const Part* part) const {
  if (!call_->is_shared()) return parts_[part->number].weights;
  const size_t group = call_->group();
  const size_t num_pieces = call_->work().num_ranges_max * call_->num_runs();
  return {shared_.words + unit * group * num_words(),
          shared_.references + unit * num_pieces * group, shared_.sums + unit * num_pieces * group};
}

template <typename F>
Status CodeDrawOperator::ForEachPiece(uint32_t unit_idx, uint32_t range, const Part* part,
                                      const F& f) const {
  const WorkUnit& unit = call_->unit(unit_idx);
  const TokenRange of_range = unit.Range(range);
  const TokenRange middle = call_->Middle(unit.first_row);
  const Weights weights = WeightsOf(unit_idx, part);
  const auto floor = [](uint64_t row) { return row / kBlockTokens * kBlockTokens; };
  const auto ceil = [&floor](uint64_t row) { return floor(row + kBlockTokens - 1); };
  uint16_t* words = weights.words;
  const std::span<const HeadRun> runs = call_->HeadRuns(unit.kv_head);
  for (uint32_t i = 0; i < runs.size(); ++i) {
    const HeadRun& run = runs[i];
    const TokenRange tokens = Intersect(middle, run.tokens);
    const uint64_t first = floor(run.RowOf(run.tokens.begin));
    Piece piece = {.run = &run, .words = words};
    words += ceil(run.RowOf(run.tokens.end)) - first;
    if (tokens.begin >= tokens.end) continue;
    // The range has the blocks that begin in it.
    const auto block_from = [&](uint64_t token) {
      return token <= run.tokens.begin ? 0 : ceil(run.RowOf(token));
    };
    const uint64_t begin = std::max(block_from(of_range.begin), floor(run.RowOf(tokens.begin)));
    const uint64_t end = std::min(block_from(of_range.end), run.RowOf(tokens.end));
    if (begin >= end) continue;
    piece.first = begin;
    piece.count = end - begin;
    piece.num_hidden = std::max(run.RowOf(tokens.begin), begin) - begin;
    piece.words += begin - first;
    const size_t number = (size_t{range} * runs.size() + i) * call_->group();
    piece.references = weights.references + number;
    piece.sums = weights.sums + number;
    ATTNDB_RETURN_IF_ERROR(f(piece));
  }
  return Status::Ok();
}

void CodeDrawOperator::WeighByCodes(const Piece& piece, Part* part) {
  const Scratch& scratch = parts_[part->number];
  const index::WeighIndex& codes = *CodesOf(*piece.run);
  const uint32_t group = call_->group();
  const size_t num_blocks = (piece.count + kBlockTokens - 1) / kBlockTokens;
  codes.Weigh({.q = part->q,
               .q_stride = call_->k_padded(),
               .num_q_rows = group,
               .logit_scale = call_->spec().scale,
               .first_key = piece.first,
               .num_keys = piece.count,
               .references = piece.references,
               .words = piece.words,
               .words_stride = num_words(),
               .sums = scratch.block_sums,
               .sums_stride = num_blocks},
              scratch.weigh);
  for (uint32_t g = 0; g < group; ++g) {
    float* const sums = scratch.block_sums + g * num_blocks;
    if (piece.num_hidden > 0) {  // They have a part in the first block's sum.
      const uint16_t* const words = piece.words + g * num_words();
      const size_t in_block = std::min<size_t>(kBlockTokens, piece.count);
      sums[0] = 0;
      for (size_t i = piece.num_hidden; i < in_block; ++i) sums[0] += kernels::WeightOf(words[i]);
    }
    piece.sums[g] = std::accumulate(sums, sums + num_blocks, 0.0f);
  }
  const double bytes = static_cast<double>(piece.count) * codes.WeighedBytes();
  part->cost.bytes_touched += static_cast<uint64_t>(bytes);
  part->cost.num_weighed += piece.count;
}

Status CodeDrawOperator::WeighExactly(const Piece& piece, Part* part) {
  float* const scores = parts_[part->number].scores;
  const uint32_t group = call_->group();
  const GroupQueries q = {part->q, call_->k_padded(), group};
  const uint64_t first_token = piece.run->origin + piece.first;
  for (size_t done = 0; done < piece.count; done += kScoredTokens) {
    const size_t count = std::min<size_t>(kScoredTokens, piece.count - done);
    const TokenRange tokens = {first_token + done, first_token + done + count};
    ATTNDB_RETURN_IF_ERROR(ScoreRange(*piece.run, tokens, q, {scores, kScoredTokens}, &part->rows));
    for (uint32_t g = 0; g < group; ++g) {
      float* const logits = scores + g * kScoredTokens;
      kernels::ToLogits(logits, count, Logit(call_->spec()), logits);
      if (done == 0) {
        piece.references[g] = *std::max_element(logits, logits + count);
        piece.sums[g] = 0;
      }
      uint16_t* const words = piece.words + g * num_words() + done;
      for (size_t i = 0; i < count; ++i) {
        words[i] = WordOf(logits[i] - piece.references[g]);
        if (done + i >= piece.num_hidden) piece.sums[g] += kernels::WeightOf(words[i]);
      }
    }
  }
  part->cost.bytes_touched += piece.count * piece.run->k_bytes();
  return Status::Ok();
}

Status CodeDrawOperator::RunItem(const WorkItem& item, Part* part) {
  const int64_t start_ns = SteadyNowNanos();
  ATTNDB_RETURN_IF_ERROR(
      ForEachPiece(item.unit, item.range, part, [&](const Piece& piece) -> Status {
        if (CodesOf(*piece.run) == nullptr) return WeighExactly(piece, part);
        WeighByCodes(piece, part);
        return Status::Ok();
      }));
  part->cost.score_ns += SteadyNowNanos() - start_ns;
  return Status::Ok();
}

uint64_t CodeDrawOperator::Seed(const WorkUnit& unit) const {
  return call_->TokenOfRow(unit.first_row) * call_->spec().num_kv_heads + unit.kv_head;
}

// A query that is no number gives all that `full` gives.
Status CodeDrawOperator::AttendAllTokens(const WorkUnit& unit, Part* part) {
  const uint32_t group = call_->group();
  const SampleRead read = {.runs = call_->HeadRuns(unit.kv_head),
                           .num_tokens = unit.tokens.end,
                           .q = {part->q, call_->k_padded(), group},
                           .logit = Logit(call_->spec()),
                           .v_padded = call_->v_padded(),
                           .rows = &part->rows,
                           .cost = &part->cost};
  return AttendAllFor(read, 0, group, part->states);
}

// The weights of the unit's middle, in order.
std::span<const WeighedTokens> CodeDrawOperator::WeightsOfMiddle(uint32_t unit_idx, Part* part) {
  const WorkUnit& unit = call_->unit(unit_idx);
  WeighedTokens* const pieces = parts_[part->number].pieces;
  size_t count = 0;
  for (uint32_t range = 0; range < unit.num_ranges; ++range) {
    (void)ForEachPiece(unit_idx, range, part, [&](const Piece& piece) {
      const uint64_t first = piece.run->origin + piece.first;
      pieces[count++] = {{first + piece.num_hidden, first + piece.count},
                         piece.words + piece.num_hidden,
                         piece.references,
                         piece.sums};
      return Status::Ok();
    });
  }
  return {pieces, count};
}

Status CodeDrawOperator::Finish(uint32_t unit_idx, uint32_t /*group_head*/, Part* part) {
  const WorkUnit& unit = call_->unit(unit_idx);
  const uint32_t group = call_->group();
  if (std::isfinite(Norm({part->q, group * call_->k_padded()}))) {
    const PhasedCall call = {.spec = &call_->spec(),
                             .plan = &call_->plan(),
                             .runs = call_->HeadRuns(unit.kv_head),
                             .q = {part->q, call_->k_padded(), group},
                             .visible = unit.tokens,
                             .middle = call_->Middle(unit.first_row),
                             .weights = WeightsOfMiddle(unit_idx, part),
                             .words_stride = num_words(),
                             .denominator_logits = DenominatorLogits(call_->spec(), unit.kv_head),
                             .budget = call_->call().draws[unit.kv_head],
                             .effort = double{call_->plan().Effort()},
                             .seed = Seed(unit),
                             .rows = &part->rows};
    PhasedScratch& scratch = parts_[part->number].draw;
    ATTNDB_RETURN_IF_ERROR(PhasedDraw(call, &scratch, &part->cost).Attend(part->states));
  } else {
    ATTNDB_RETURN_IF_ERROR(AttendAllTokens(unit, part));
  }
  call_->WriteHeads(unit, 0, group, part->states, part);
  return Status::Ok();
}

}  // namespace attndb::attention
