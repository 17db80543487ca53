// The units of a plan that draws: what a scan of a range keeps of its tokens. Scores are looked at
// while they lie in the cache, and forgotten.
#include <algorithm>
#include <limits>

#include "attention/call_util.h"
#include "attention/layer_attention.h"
#include "attention/threshold_sample.h"
#include "common/lane_sum.h"
#include "common/random.h"
#include "kernels/draw.h"

namespace attndb::attention {

using kernels::KeptTokens;

namespace {

// Thresholds of what is kept are found from some pieces of the middle: they need not be right.
constexpr uint64_t kPieceTokens = 64;
constexpr uint64_t kLeastStride = 16;
constexpr uint64_t kLeastPieces = 8;
constexpr uint64_t kMostPieces = LayerAttention::kMostSampled / kPieceTokens;

uint64_t PieceStride(uint64_t num_pieces) {
  const uint64_t wanted = std::clamp(num_pieces / kLeastStride, kLeastPieces, kMostPieces);
  return std::max<uint64_t>(1, (num_pieces + wanted - 1) / wanted);
}

}  // namespace

// Scores of some pieces of the tokens, one piece a stride, of every q head: [group][kMostSampled].
// Returns how many; each stands for *share tokens.
uint64_t LayerAttention::ScorePieces(const WorkUnit& unit, TokenRange tokens, double* share,
                                     Part* part) {
  const uint64_t num_tokens = tokens.end - tokens.begin;
  const uint64_t num_pieces = (num_tokens + kPieceTokens - 1) / kPieceTokens;
  const uint64_t stride = PieceStride(num_pieces);
  uint64_t count = 0;
  for (uint64_t i = 0; i * stride < num_pieces; ++i) {
    // Not always the same one of a stride, in case scores repeat.
    const uint64_t piece = std::min(i * stride + i % stride, num_pieces - 1);
    const uint64_t begin = tokens.begin + piece * kPieceTokens;
    const TokenRange range = {begin, std::min(begin + kPieceTokens, tokens.end)};
    ForEachTile(range, [&](size_t run, TokenRange tile) {
      ScoreTile(unit, run, tile, {part->sample + count, kMostSampled}, part);
      count += tile.end - tile.begin;
    });
  }
  *share = static_cast<double>(num_tokens) / static_cast<double>(count);
  return count;
}

// By q head, the threshold of what all ranges of the unit keep together.
void LayerAttention::FindThresholds(const WorkUnit& unit, Part* part) {
  const double wanted = GroupDraw::kKept * call_.draws[unit.kv_head].first_rows;
  const TokenRange middle = Intersect(unit.tokens, Middle(unit.first_row));
  const uint32_t group = call_.spec.group_size();
  std::fill_n(part->thresholds, group, -std::numeric_limits<float>::infinity());
  if (static_cast<double>(middle.end - middle.begin) <= wanted) return;
  double share = 1.0;
  const uint64_t count = ScorePieces(unit, middle, &share, part);
  for (uint32_t g = 0; g < group; ++g) {
    part->thresholds[g] = FindThresholdOfScores(part->sample + g * kMostSampled, count,
                                                Logit(call_.spec), share, wanted);
  }
}

// The first range of a unit to be worked on finds the unit's thresholds and publishes them. Where a
// second one is begun before that, its thread finds the same ones for itself instead of waiting.
void LayerAttention::TakeThresholds(uint32_t unit_idx, Part* part) {
  const WorkUnit& unit = work_.units[unit_idx];
  if (unit.num_ranges == 1) return FindThresholds(unit, part);
  const uint32_t group = call_.spec.group_size();
  float* const published = shared_kept_.thresholds + size_t{unit_idx} * group;
  std::atomic<Thresholds>& state = thresholds_[unit_idx];
  if (state.load(std::memory_order_acquire) == Thresholds::kPublished) {
    std::copy_n(published, group, part->thresholds);
    return;
  }
  FindThresholds(unit, part);
  Thresholds unknown = Thresholds::kUnknown;
  if (!state.compare_exchange_strong(unknown, Thresholds::kWritten, std::memory_order_relaxed)) {
    return;
  }
  std::copy_n(part->thresholds, group, published);
  state.store(Thresholds::kPublished, std::memory_order_release);
}

// All of some tokens, by exact scores.
void LayerAttention::KeepAll(const WorkUnit& unit, TokenRange tokens, KeptTokens* kept,
                             Part* part) {
  ForEachTile(tokens, [&](size_t run, TokenRange tile) {
    ScoreExactly(unit, run, tile, {kept->scores + kept->count, kept->stride}, part);
    for (uint64_t token = tile.begin; token < tile.end; ++token, ++kept->count) {
      kept->tokens[kept->count] = static_cast<uint32_t>(token);
      kept->noise[kept->count] = 0.0f;
    }
  });
}

// Of middle tokens of one run, at most DrawNoise::kStretch of them, what the rule draws.
void LayerAttention::KeepDrawn(const WorkUnit& unit, size_t run, TokenRange tokens,
                               const kernels::DrawRule& rule, KeptTokens* kept, Part* part) {
  // Of the token and the kv head alone.
  const uint64_t seed = TokenOfRow(unit.first_row) * call_.spec.num_kv_heads + unit.kv_head;
  const float* const noise = DrawNoise(seed).From(tokens.begin);
  const auto first = static_cast<uint32_t>(tokens.begin);
  const uint32_t group = call_.spec.group_size();
  const uint64_t num_tokens = tokens.end - tokens.begin;
  if (const auto* const estimates = PreparedEstimates(unit.kv_head, run, part)) {
    estimates->Keep({.bits = call_.plan.bits,
                     .first_key = tokens.begin - run_begin_[run],
                     .num_keys = num_tokens,
                     .queries = {part->queries, group},
                     .rule = rule,
                     .noise = noise,
                     .first_token = first,
                     .work = part->tile},
                    kept);
    part->cost.bytes_touched += num_tokens * estimates->ScanBytes(call_.plan.bits);
    return;
  }
  ForEachTile(tokens, [&](size_t, TokenRange tile) {
    ScoreExactly(unit, run, tile, {part->tile, kTileTokens}, part);
    const uint64_t done = tile.begin - tokens.begin;
    kernels::KeepTokens(rule, part->tile, kTileTokens, group, tile.end - tile.begin, noise + done,
                        first + static_cast<uint32_t>(done), kept);
  });
}

// The same of middle tokens of one run, by an index, which has an order of its own.
void LayerAttention::KeepByIndex(const WorkUnit& unit, size_t run, TokenRange tokens,
                                 const kernels::DrawRule& rule, KeptTokens* kept, Part* part) {
  const index::DrawIndex& index = *Draws(unit.kv_head, run);
  const index::KeyEstimates& estimates = *PreparedEstimates(unit.kv_head, run, part);
  const uint32_t group = call_.spec.group_size();
  for (uint32_t g = 0; g < group; ++g) {
    part->q_norms[g] = static_cast<float>(Norm({part->q + g * k_padded_, k_padded_}));
  }
  // Of the place, the run and the kv head.
  const uint64_t seed =
      (TokenOfRow(unit.first_row) * call_.spec.num_kv_heads + unit.kv_head) * call_.num_runs + run;
  index::DrawCall draw = {.scan = {.bits = call_.plan.bits,
                                   .queries = {part->queries, group},
                                   .rule = rule,
                                   .first_token = static_cast<uint32_t>(run_begin_[run]),
                                   .work = part->tile,
                                   .audit_phase = static_cast<uint32_t>(Random(seed).Next())},
                          .first_visible = tokens.begin - run_begin_[run],
                          .num_visible = tokens.end - run_begin_[run],
                          .effort = call_.plan.Effort(),
                          .q_norms = part->q_norms,
                          .row_reaches = part->row_reaches,
                          .work = &part->places};
  const size_t first_kept = kept->count;
  const index::PlaceRange places = index.PlacesOf(draw.first_visible, draw.num_visible);
  for (size_t begin = places.begin; begin < places.end;) {
    const size_t next = (begin / DrawNoise::kStretch + 1) * DrawNoise::kStretch;
    draw.scan.first_key = begin;
    draw.scan.num_keys = std::min(places.end, next) - begin;
    draw.scan.noise = DrawNoise(seed).From(begin);
    const index::KeepCost cost = index.Draw(draw, kept);
    part->cost.bytes_touched += cost.num_scored * estimates.ScanBytes(call_.plan.bits);
    part->cost.num_visited += cost.num_scored * group;
    part->cost.num_missed += cost.num_missed * index::KeepCall::kAuditEvery;
    begin = next;
  }
  part->cost.num_kept += kept->count - first_kept;
}

void LayerAttention::KeepMiddle(const WorkUnit& unit, TokenRange middle,
                                const kernels::DrawRule& rule, KeptTokens* kept, Part* part) {
  for (size_t run = 0; run < call_.num_runs; ++run) {
    const TokenRange tokens = Intersect(middle, {run_begin_[run], run_begin_[run + 1]});
    if (tokens.begin >= tokens.end) continue;
    if (Draws(unit.kv_head, run) != nullptr) {
      KeepByIndex(unit, run, tokens, rule, kept, part);
      continue;
    }
    ForEachTile<DrawNoise::kStretch>(
        tokens, [&](size_t of, TokenRange tile) { KeepDrawn(unit, of, tile, rule, kept, part); });
  }
}

// Keeps sinks, window, and of the middle what the thresholds draw.
void LayerAttention::CollectRange(const WorkItem& item, Part* part) {
  const WorkUnit& unit = work_.units[item.unit];
  const TokenRange range = unit.Range(item.range);
  const TokenRange middle = Middle(unit.first_row);
  const Kept room = KeptOf(item, part);
  TakeThresholds(item.unit, part);
  KeptTokens kept = {room.tokens, room.noise, room.scores, call_.num_tokens, 0};
  KeepAll(unit, Intersect(range, {0, middle.begin}), &kept, part);
  room.counts->middle_begin = static_cast<uint32_t>(kept.count);
  KeepMiddle(unit, Intersect(range, middle), {Logit(call_.spec), part->thresholds}, &kept, part);
  room.counts->middle_end = static_cast<uint32_t>(kept.count);
  KeepAll(unit, Intersect(range, {middle.end, unit.tokens.end}), &kept, part);
  room.counts->end = static_cast<uint32_t>(kept.count);
}

LayerAttention::Kept LayerAttention::KeptOf(const WorkItem& item, Part* part) const {
  const bool own = work_.num_ranges_max == 1;
  const Kept& from = own ? part->kept : shared_kept_;
  const size_t unit = own ? 0 : item.unit;
  const uint32_t group = call_.spec.group_size();
  const size_t slice = unit * work_.num_ranges_max + item.range;
  const size_t begin = work_.units[item.unit].Range(item.range).begin;
  const size_t first = unit * call_.num_tokens + begin;
  return {from.tokens + first, from.noise + first,
          from.scores + unit * group * call_.num_tokens + begin, from.counts + slice};
}

size_t LayerAttention::KeptBytes(size_t num_units) const {
  const uint32_t group = call_.spec.group_size();
  const size_t num_slices = num_units * work_.num_ranges_max;
  const size_t num_tokens = num_units * call_.num_tokens;
  return ArenaBytes<uint32_t>(num_tokens) + ArenaBytes<float>(num_tokens) +
         ArenaBytes<float>(group * num_tokens) + ArenaBytes<KeptCounts>(num_slices) +
         ArenaBytes<float>(group * num_units);
}

LayerAttention::Kept LayerAttention::TakeKept(size_t num_units, Arena* arena) const {
  const uint32_t group = call_.spec.group_size();
  const size_t num_slices = num_units * work_.num_ranges_max;
  const size_t num_tokens = num_units * call_.num_tokens;
  Kept kept;
  kept.tokens = arena->Take<uint32_t>(num_tokens);
  kept.noise = arena->Take<float>(num_tokens);
  kept.scores = arena->Take<float>(group * num_tokens);
  kept.counts = arena->Take<KeptCounts>(num_slices);
  kept.thresholds = arena->Take<float>(group * num_units);
  return kept;
}

// What the ranges of a unit kept, in order.
std::span<const DrawSlice> LayerAttention::SlicesOf(uint32_t unit, Part* part) const {
  part->slices.clear();
  for (uint32_t range = 0; range < work_.units[unit].num_ranges; ++range) {
    const Kept kept = KeptOf({unit, range}, part);
    const KeptCounts& counts = *kept.counts;
    part->slices.push_back({{kept.tokens, kept.noise, kept.scores, call_.num_tokens, counts.end},
                            {counts.middle_begin, counts.middle_end}});
  }
  return part->slices;
}

void LayerAttention::FinishDraw(uint32_t unit_idx, Part* part) {
  const WorkUnit& unit = work_.units[unit_idx];
  const uint32_t group = call_.spec.group_size();
  const GroupCall call = {.spec = &call_.spec,
                          .plan = &call_.plan,
                          .runs = HeadRuns(unit.kv_head),
                          .q = {part->q, k_padded_, group},
                          .num_tokens = unit.tokens.end,
                          .middle = Middle(unit.first_row),
                          .denominator_logits = DenominatorLogits(call_.spec, unit.kv_head),
                          .budget = call_.draws[unit.kv_head],
                          .slices = SlicesOf(unit_idx, part),
                          .thresholds = part->thresholds};
  GroupDraw(call, &part->group, &part->cost).Attend(part->states);
  WriteHeads(unit, 0, group, part->states, part);
}

}  // namespace attndb::attention
