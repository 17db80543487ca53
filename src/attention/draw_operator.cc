#include "attention/draw_operator.h"

#include <algorithm>
#include <memory>

#include "attention/call_util.h"
#include "attention/threshold_sample.h"
#include "common/clock.h"
#include "common/infinity.h"
#include "common/lane_sum.h"
#include "common/random.h"

namespace attndb::attention {

using kernels::KeptTokens;

namespace {

// The thresholds for keeping come from some pieces of the middle: they need not be exact.
constexpr uint64_t kTileTokens = GroupScorer::kTileTokens;
constexpr uint64_t kPieceTokens = 64;
constexpr uint64_t kLeastStride = 16;
constexpr uint64_t kLeastPieces = 8;
constexpr uint64_t kMostPieces = DrawOperator::kMostSampled / kPieceTokens;

// Pieces of some tokens, one a stride. They begin at multiples of kPieceTokens, so that in a run
// that does, too, each is a block of its estimates, and no second one is read for a part of it; or,
// if they straddle, half a piece before. An index that draws has keys that are alike in a block:
// halves of two tell more of all keys than one.
class Pieces {
 public:
  Pieces(TokenRange tokens, bool straddle)
      : tokens_(tokens),
        before_(straddle ? kPieceTokens / 2 : 0),
        first_((tokens.begin + before_) / kPieceTokens),
        num_pieces_((tokens.end + before_ + kPieceTokens - 1) / kPieceTokens - first_) {
    const uint64_t wanted = std::clamp(num_pieces_ / kLeastStride, kLeastPieces, kMostPieces);
    stride_ = std::max<uint64_t>(1, (num_pieces_ + wanted - 1) / wanted);
  }

  uint64_t size() const { return (num_pieces_ + stride_ - 1) / stride_; }
  // Not always the same one of a stride, in case scores repeat.
  TokenRange operator[](uint64_t i) const {
    const uint64_t piece = first_ + std::min(i * stride_ + i % stride_, num_pieces_ - 1);
    const uint64_t end = (piece + 1) * kPieceTokens - before_;
    return Intersect({end - std::min(end, kPieceTokens), end}, tokens_);
  }

 private:
  const TokenRange tokens_;
  const uint64_t before_;
  const uint64_t first_;
  const uint64_t num_pieces_;
  uint64_t stride_ = 1;
};

bool Draws(const HeadRun& run) { return run.index != nullptr && run.index->draws() != nullptr; }

}  // namespace

// Scores of some pieces of the tokens, one piece a stride, of every q head: [group][kMostSampled].
// Returns how many; each stands for *share tokens.
Result<uint64_t> DrawOperator::ScorePieces(const WorkUnit& unit, TokenRange tokens, double* share,
                                           Part* part) {
  Scratch& scratch = ScratchOf(part);
  const std::span<const HeadRun> runs = call_->HeadRuns(unit.kv_head);
  const Pieces pieces(tokens, std::ranges::any_of(runs, Draws));
  uint64_t count = 0;
  FetchEstimates(runs, pieces[0]);
  for (uint64_t i = 0; i < pieces.size(); ++i) {
    if (i + 1 < pieces.size()) FetchEstimates(runs, pieces[i + 1]);
    ATTNDB_RETURN_IF_ERROR(
        ForEachTile<kTileTokens>(runs, pieces[i], [&](const HeadRun& run, TokenRange tile) {
          const size_t place = count;
          count += tile.end - tile.begin;
          return scratch.scorer.Score(run, tile, {scratch.sample + place, kMostSampled});
        }));
  }
  *share = static_cast<double>(tokens.end - tokens.begin) / static_cast<double>(count);
  return count;
}

// No stream of memory leads from one piece to the next: each is asked for while another is scored.
void DrawOperator::FetchEstimates(std::span<const HeadRun> runs, TokenRange tokens) const {
  for (const HeadRun& run : runs) {
    const TokenRange some = Intersect(tokens, run.tokens);
    if (run.estimates == nullptr || some.begin >= some.end) continue;
    run.estimates->Fetch(call_->plan().bits, run.RowOf(some.begin), some.end - some.begin);
  }
}

// By q head: the threshold for all ranges of the unit together.
Status DrawOperator::FindThresholds(const WorkUnit& unit, Part* part) {
  Scratch& scratch = ScratchOf(part);
  const double wanted = GroupDraw::kKept * call_->call().draws[unit.kv_head].first_rows;
  const TokenRange middle = Intersect(unit.tokens, call_->Middle(unit.first_row));
  const uint32_t group = call_->group();
  std::fill_n(scratch.thresholds, group, -kInfinity);
  if (static_cast<double>(middle.end - middle.begin) <= wanted) return Status::Ok();
  double share = 1.0;
  ATTNDB_ASSIGN_OR_RETURN(const uint64_t count, ScorePieces(unit, middle, &share, part));
  for (uint32_t g = 0; g < group; ++g) {
    scratch.thresholds[g] = FindThresholdOfScores(scratch.sample + g * kMostSampled, count,
                                                  Logit(call_->spec()), share, wanted);
  }
  return Status::Ok();
}

// The first range of a unit to be worked on finds the unit's thresholds and publishes them. Where a
// second one is begun before that, its thread finds the same ones for itself instead of waiting.
Status DrawOperator::TakeThresholds(uint32_t unit_idx, Part* part) {
  const WorkUnit& unit = call_->unit(unit_idx);
  if (unit.num_ranges == 1) return FindThresholds(unit, part);
  const uint32_t group = call_->group();
  float* const published = shared_.thresholds + size_t{unit_idx} * group;
  std::atomic<Thresholds>& state = thresholds_[unit_idx];
  float* const own = ScratchOf(part).thresholds;
  if (state.load(std::memory_order_acquire) == Thresholds::kPublished) {
    std::copy_n(published, group, own);
    return Status::Ok();
  }
  ATTNDB_RETURN_IF_ERROR(FindThresholds(unit, part));
  Thresholds unknown = Thresholds::kUnknown;
  if (!state.compare_exchange_strong(unknown, Thresholds::kWritten, std::memory_order_relaxed)) {
    return Status::Ok();
  }
  std::copy_n(own, group, published);
  state.store(Thresholds::kPublished, std::memory_order_release);
  return Status::Ok();
}

// All of some tokens, by exact scores.
Status DrawOperator::KeepAll(const WorkUnit& unit, TokenRange tokens, KeptTokens* kept,
                             Part* part) {
  const auto runs = call_->HeadRuns(unit.kv_head);
  return ForEachTile<kTileTokens>(runs, tokens, [&](const HeadRun& run, TokenRange tile) -> Status {
    ATTNDB_RETURN_IF_ERROR(
        ScratchOf(part).scorer.ScoreExactly(run, tile, {kept->scores + kept->count, kept->stride}));
    for (uint64_t token = tile.begin; token < tile.end; ++token, ++kept->count) {
      kept->tokens[kept->count] = static_cast<uint32_t>(token);
      kept->noise[kept->count] = 0.0f;
    }
    return Status::Ok();
  });
}

// Keeps the drawn middle tokens of one run, at most DrawNoise::kStretch of them.
Status DrawOperator::KeepDrawn(const WorkUnit& unit, const HeadRun& run, TokenRange tokens,
                               const kernels::DrawRule& rule, KeptTokens* kept, Part* part) {
  // The seed depends on the token and the kv head alone.
  const uint64_t seed =
      call_->TokenOfRow(unit.first_row) * call_->spec().num_kv_heads + unit.kv_head;
  const float* const noise = DrawNoise(seed).From(tokens.begin);
  const auto first = static_cast<uint32_t>(tokens.begin);
  const uint32_t group = call_->group();
  const uint64_t num_tokens = tokens.end - tokens.begin;
  Scratch& scratch = ScratchOf(part);
  if (run.estimates != nullptr) {
    const uint32_t bits = call_->plan().bits;
    run.estimates->Keep({.bits = bits,
                         .first_key = run.RowOf(tokens.begin),
                         .num_keys = num_tokens,
                         .queries = scratch.scorer.Prepared(run),
                         .rule = rule,
                         .noise = noise,
                         .first_token = first,
                         .work = scratch.tile},
                        kept);
    part->cost.bytes_touched += num_tokens * run.estimates->ScanBytes(bits);
    return Status::Ok();
  }
  return ForEachTile<kTileTokens>(
      {&run, 1}, tokens, [&](const HeadRun&, TokenRange tile) -> Status {
        ATTNDB_RETURN_IF_ERROR(scratch.scorer.ScoreExactly(run, tile, {scratch.tile, kTileTokens}));
        const uint64_t done = tile.begin - tokens.begin;
        kernels::KeepTokens(rule, scratch.tile, kTileTokens, group, tile.end - tile.begin,
                            noise + done, first + static_cast<uint32_t>(done), kept);
        return Status::Ok();
      });
}

// The same of middle tokens of one run, by an index, which has an order of its own.
void DrawOperator::KeepByIndex(const WorkUnit& unit, const HeadRun& run, TokenRange tokens,
                               const kernels::DrawRule& rule, KeptTokens* kept, Part* part) {
  const index::DrawIndex& index = *run.index->draws();
  const std::span<const HeadRun> runs = call_->HeadRuns(unit.kv_head);
  Scratch& scratch = ScratchOf(part);
  const uint32_t group = call_->group();
  const uint32_t bits = call_->plan().bits;
  for (uint32_t g = 0; g < group; ++g) {
    const float* const q = part->q + g * call_->k_padded();
    scratch.q_norms[g] = static_cast<float>(Norm({q, call_->k_padded()}));
  }
  // The seed depends on the token, the run and the kv head.
  const auto number = static_cast<uint64_t>(&run - runs.data());
  const uint64_t seed =
      (call_->TokenOfRow(unit.first_row) * call_->spec().num_kv_heads + unit.kv_head) *
          runs.size() +
      number;
  index::DrawCall draw = {.scan = {.bits = bits,
                                   .queries = scratch.scorer.Prepared(run),
                                   .rule = rule,
                                   .first_token = static_cast<uint32_t>(run.origin),
                                   .work = scratch.tile,
                                   .audit_phase = static_cast<uint32_t>(Random(seed).Next())},
                          .first_visible = run.RowOf(tokens.begin),
                          .num_visible = run.RowOf(tokens.end),
                          .effort = call_->plan().Effort(),
                          .q_norms = scratch.q_norms,
                          .row_reaches = scratch.row_reaches,
                          .work = &scratch.places};
  const size_t first_kept = kept->count;
  const index::PlaceRange places = index.PlacesOf(draw.first_visible, draw.num_visible);
  for (size_t begin = places.begin; begin < places.end;) {
    const size_t next = (begin / DrawNoise::kStretch + 1) * DrawNoise::kStretch;
    draw.scan.first_key = begin;
    draw.scan.num_keys = std::min(places.end, next) - begin;
    draw.scan.noise = DrawNoise(seed).From(begin);
    const index::KeepCost cost = index.Draw(draw, kept);
    part->cost.bytes_touched += cost.num_scored * index.estimates().ScanBytes(bits);
    part->cost.num_visited += cost.num_scored * group;
    part->cost.num_missed += cost.num_missed * index::KeepCall::kAuditEvery;
    begin = next;
  }
  part->cost.num_kept += kept->count - first_kept;
}

Status DrawOperator::KeepMiddle(const WorkUnit& unit, TokenRange middle,
                                const kernels::DrawRule& rule, KeptTokens* kept, Part* part) {
  for (const HeadRun& run : call_->HeadRuns(unit.kv_head)) {
    const TokenRange tokens = Intersect(middle, run.tokens);
    if (tokens.begin >= tokens.end) continue;
    if (Draws(run)) {
      KeepByIndex(unit, run, tokens, rule, kept, part);
      continue;
    }
    ATTNDB_RETURN_IF_ERROR(
        ForEachTile<DrawNoise::kStretch>({&run, 1}, tokens, [&](const HeadRun&, TokenRange tile) {
          return KeepDrawn(unit, run, tile, rule, kept, part);
        }));
  }
  return Status::Ok();
}

// Keeps sinks, window, and the middle tokens above the thresholds.
Status DrawOperator::CollectRange(const WorkItem& item, Part* part) {
  const WorkUnit& unit = call_->unit(item.unit);
  const TokenRange range = unit.Range(item.range);
  const TokenRange middle = call_->Middle(unit.first_row);
  const Kept room = KeptOf(item, part);
  ATTNDB_RETURN_IF_ERROR(TakeThresholds(item.unit, part));
  KeptTokens kept = {room.tokens, room.noise, room.scores, call_->call().num_tokens, 0};
  ATTNDB_RETURN_IF_ERROR(KeepAll(unit, Intersect(range, {0, middle.begin}), &kept, part));
  room.counts->middle_begin = static_cast<uint32_t>(kept.count);
  ATTNDB_RETURN_IF_ERROR(KeepMiddle(unit, Intersect(range, middle),
                                    {Logit(call_->spec()), ScratchOf(part).thresholds}, &kept,
                                    part));
  room.counts->middle_end = static_cast<uint32_t>(kept.count);
  ATTNDB_RETURN_IF_ERROR(
      KeepAll(unit, Intersect(range, {middle.end, unit.tokens.end}), &kept, part));
  room.counts->end = static_cast<uint32_t>(kept.count);
  return Status::Ok();
}

DrawOperator::Kept DrawOperator::KeptOf(const WorkItem& item, const Part* part) const {
  const bool shared = call_->is_shared();
  const Kept& from = shared ? shared_ : parts_[part->number].kept;
  const size_t unit = shared ? item.unit : 0;
  const uint32_t group = call_->group();
  const size_t num_tokens = call_->call().num_tokens;
  const size_t slice = unit * call_->work().num_ranges_max + item.range;
  const size_t begin = call_->unit(item.unit).Range(item.range).begin;
  const size_t first = unit * num_tokens + begin;
  return {from.tokens + first, from.noise + first, from.scores + unit * group * num_tokens + begin,
          from.counts + slice};
}

DrawOperator::Kept DrawOperator::TakeKept(size_t num_units, Arena* arena) const {
  const uint32_t group = call_->group();
  const size_t num_slices = num_units * call_->work().num_ranges_max;
  const size_t num_tokens = num_units * call_->call().num_tokens;
  Kept kept;
  kept.tokens = arena->Take<uint32_t>(num_tokens);
  kept.noise = arena->Take<float>(num_tokens);
  kept.scores = arena->Take<float>(group * num_tokens);
  kept.counts = arena->Take<KeptCounts>(num_slices);
  kept.thresholds = arena->Take<float>(group * num_units);
  return kept;
}

void DrawOperator::TakePlaces(Scratch* scratch, Arena* arena) const {
  const uint32_t group = call_->group();
  constexpr size_t kPlaces = DrawNoise::kStretch;
  scratch->places.tokens = arena->Take<uint32_t>(kPlaces);
  scratch->places.noise = arena->Take<float>(kPlaces);
  scratch->places.scores = arena->Take<float>(group * kPlaces);
  scratch->places.stride = kPlaces;
  scratch->q_norms = arena->Take<float>(group);
  scratch->row_reaches = arena->Take<float>(group);
}

void DrawOperator::Begin(const CallView& call) {
  call_ = &call;
  parts_.resize(call.num_parts());
}

void DrawOperator::TakeShared(Arena* arena) {
  const size_t num_units = call_->work().units.size();
  shared_ = TakeKept(num_units, arena);
  thresholds_ = arena->Take<std::atomic<Thresholds>>(num_units);
  if (thresholds_ == nullptr) return;  // The arena measures.
  for (size_t i = 0; i < num_units; ++i) std::construct_at(&thresholds_[i], Thresholds::kUnknown);
}

void DrawOperator::TakePart(uint32_t part, Arena* arena) {
  const uint32_t group = call_->group();
  Scratch& scratch = parts_[part];
  scratch.scorer.Take(*call_, arena);
  if (!call_->is_shared()) scratch.kept = TakeKept(1, arena);
  scratch.sample = arena->Take<float>(group * kMostSampled);
  scratch.thresholds = arena->Take<float>(group);
  scratch.tile = arena->Take<float>(group * kTileTokens);
  scratch.slices = arena->Take<DrawSlice>(call_->work().num_ranges_max);
  scratch.group = GroupScratch::Take(group, call_->call().num_tokens, call_->v_padded(), arena);
  if (!call_->call().indexes.empty()) TakePlaces(&scratch, arena);
}

Status DrawOperator::RunItem(const WorkItem& item, Part* part) {
  const int64_t start_ns = SteadyNowNanos();
  ScratchOf(part).scorer.Begin(call_->unit(item.unit), part);
  ATTNDB_RETURN_IF_ERROR(CollectRange(item, part));
  part->cost.score_ns += SteadyNowNanos() - start_ns;
  return Status::Ok();
}

// The kept tokens of a unit's ranges, in order.
std::span<const DrawSlice> DrawOperator::SlicesOf(uint32_t unit, Part* part) const {
  DrawSlice* const slices = parts_[part->number].slices;
  const uint32_t num_ranges = call_->unit(unit).num_ranges;
  for (uint32_t range = 0; range < num_ranges; ++range) {
    const Kept kept = KeptOf({unit, range}, part);
    const KeptCounts& counts = *kept.counts;
    slices[range] = {{kept.tokens, kept.noise, kept.scores, call_->call().num_tokens, counts.end},
                     {counts.middle_begin, counts.middle_end}};
  }
  return {slices, num_ranges};
}

Status DrawOperator::Finish(uint32_t unit_idx, uint32_t /*group_head*/, Part* part) {
  const WorkUnit& unit = call_->unit(unit_idx);
  const uint32_t group = call_->group();
  const GroupCall call = {.spec = &call_->spec(),
                          .plan = &call_->plan(),
                          .runs = call_->HeadRuns(unit.kv_head),
                          .q = {part->q, call_->k_padded(), group},
                          .num_tokens = unit.tokens.end,
                          .middle = call_->Middle(unit.first_row),
                          .denominator_logits = DenominatorLogits(call_->spec(), unit.kv_head),
                          .budget = call_->call().draws[unit.kv_head],
                          .slices = SlicesOf(unit_idx, part),
                          .thresholds = ScratchOf(part).thresholds,
                          .rows = &part->rows};
  ATTNDB_RETURN_IF_ERROR(GroupDraw(call, &ScratchOf(part).group, &part->cost).Attend(part->states));
  call_->WriteHeads(unit, 0, group, part->states, part);
  return Status::Ok();
}

}  // namespace attndb::attention
