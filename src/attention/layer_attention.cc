#include "attention/layer_attention.h"

#include <algorithm>

#include "attention/call_util.h"
#include "attention/tensor_rows.h"
#include "attention/threshold_sample.h"
#include "common/check.h"
#include "common/clock.h"
#include "kernels/attend.h"
#include "kernels/attend_block.h"
#include "kernels/weights.h"

namespace attndb::attention {
namespace {

using kernels::RowElements;
using kernels::RowsView;
using kernels::StateRows;
using kernels::StatesFrom;

// From this many q rows on, packing a tile of K for the blocked kernel pays.
constexpr size_t kBlockMinRows = 12;

// Maxima and sums that fill a line of the cache, or two that are fetched together: threads that
// write to one line tile by tile would wait for each other.
constexpr size_t kRowsPerLine = 128 / sizeof(float);

}  // namespace

std::string_view ReasonForFull(const LayerCall& call) {
  if (!call.full_reason.empty()) return call.full_reason;
  return call.plan.ReasonForFull(
      call.spec, {static_cast<uint64_t>(call.q.rows()), call.num_tokens, call.dense_query_tokens});
}

Status LayerAttention::Begin(const LayerCall& call) {
  call_ = call;
  k_padded_ = RowElements(call.spec.head_dim);
  v_padded_ = RowElements(call.spec.v_head_dim);
  first_row_token_ = call.num_tokens - static_cast<uint64_t>(call.q.rows());
  sparse_ = call.plan.kind != planner::QueryKind::kFull && ReasonForFull(call).empty();
  chooses_ = sparse_ && call.plan.Chooses();
  finds_ = chooses_ && call.plan.Finds();
  run_begin_.clear();
  uint64_t begin = 0;
  for (size_t i = 0; i < call.num_runs; ++i) {
    run_begin_.push_back(begin);
    begin += call.runs[i].num_tokens;
  }
  run_begin_.push_back(begin);
  ATTNDB_CHECK(begin == call.num_tokens);
  needs_sums_ = chooses_ && !finds_ && !call.plan.Draws() &&
                (call.plan.Estimates() || call.search->NeedsSums());
  if (chooses_) ListHeadRuns();
  work_.Reset({.num_kv_heads = call.spec.num_kv_heads,
               .group_size = call.spec.group_size(),
               .num_rows = static_cast<uint64_t>(call.q.rows()),
               .num_tokens = call.num_tokens,
               .window = call.spec.sliding_window,
               .by_row = sparse_,
               .num_parts = call.num_parts,
               .uncut = finds_});
  rows_max_ = work_.rows_per_unit_max * call.spec.group_size();
  range_rows_ = (rows_max_ + kRowsPerLine - 1) / kRowsPerLine * kRowsPerLine;
  const bool bounds = chooses_ && call.plan.Bounds();
  bounds_.assign(bounds ? static_cast<size_t>(call.q.rows()) * call.spec.num_q_heads : 0,
                 HeadBound());
  search_bytes_ = finds_ ? IndexedSize().SearchBytes() : 0;
  ATTNDB_RETURN_IF_ERROR(MakeRoom());
  TakeFromArenas();
  next_item_.store(0, std::memory_order_relaxed);
  for (size_t i = 0; i < work_.units.size(); ++i) {
    remaining_[i].store(work_.units[i].num_ranges, std::memory_order_relaxed);
    next_head_[i].store(call.spec.group_size(), std::memory_order_relaxed);
    thresholds_[i].store(Thresholds::kUnknown, std::memory_order_relaxed);
  }
  return Status::Ok();
}

HeadScratchSize LayerAttention::HeadSize() const {
  return {&call_.plan, call_.search, call_.num_tokens, k_padded_};
}

// Of the kv head that needs most.
IndexedScratchSize LayerAttention::IndexedSize() const {
  return {head_runs_,       call_.num_runs,          call_.plan.MakeSpec(call_.spec),
          call_.num_tokens, call_.spec.group_size(), k_padded_};
}

size_t LayerAttention::PartBytes() const {
  size_t bytes = 2 * ArenaBytes<float>(rows_max_ * k_padded_) + StateBytes(rows_max_, v_padded_) +
                 2 * ArenaBytes<uint32_t>(rows_max_) +
                 ArenaBytes<std::byte>(kernels::AttendBlockScratchBytes(k_padded_, v_padded_));
  if (!chooses_) return bytes;
  if (finds_) return bytes + IndexedScratch::Bytes(IndexedSize(), search_bytes_);
  const uint32_t group = call_.spec.group_size();
  if (work_.num_ranges_max == 1) bytes += ChoiceBytes(1);
  if (call_.plan.Draws()) {
    bytes += ArenaBytes<float>(group * kMostSampled) + ArenaBytes<float>(group) +
             ArenaBytes<float>(group * kTileTokens) +
             GroupScratch::Bytes(group, call_.num_tokens, v_padded_);
    if (!call_.indexes.empty()) bytes += PlacesBytes();
  } else {
    bytes += HeadScratch::Bytes(HeadSize());
  }
  if (call_.plan.bits != 0) {
    bytes += ArenaBytes<std::byte>(group * index::QueryCodeBytes(k_padded_)) +
             ArenaBytes<index::EstimateQuery>(group);
  }
  return bytes;
}

Status LayerAttention::MakeRoom() {
  if (parts_.size() < call_.num_parts) parts_.resize(call_.num_parts);
  for (uint32_t i = 0; i < call_.num_parts; ++i) {
    ATTNDB_RETURN_IF_ERROR(parts_[i].arena.Reset(PartBytes()));
    parts_[i].cost = {};
    parts_[i].head_costs.assign(call_.spec.num_kv_heads, {});
  }
  const size_t num_units = work_.units.size();
  if (num_units > remaining_capacity_) {
    remaining_ = std::make_unique<std::atomic<uint32_t>[]>(num_units);
    next_head_ = std::make_unique<std::atomic<uint32_t>[]>(num_units);
    thresholds_ = std::make_unique<std::atomic<Thresholds>[]>(num_units);
    remaining_capacity_ = num_units;
  }
  if (work_.num_ranges_max == 1) return Status::Ok();
  size_t bytes = StateBytes(num_units * work_.num_ranges_max * range_rows_, v_padded_);
  if (chooses_) bytes += ChoiceBytes(num_units);
  return shared_.Reset(bytes);
}

size_t LayerAttention::PlacesBytes() const {
  const uint32_t group = call_.spec.group_size();
  constexpr size_t kPlaces = DrawNoise::kStretch;
  return ArenaBytes<uint32_t>(kPlaces) + ArenaBytes<float>(kPlaces) +
         ArenaBytes<float>(group * kPlaces) + 2 * ArenaBytes<float>(group);
}

void LayerAttention::TakePlaces(Part* part) const {
  const uint32_t group = call_.spec.group_size();
  constexpr size_t kPlaces = DrawNoise::kStretch;
  part->places.tokens = part->arena.Take<uint32_t>(kPlaces);
  part->places.noise = part->arena.Take<float>(kPlaces);
  part->places.scores = part->arena.Take<float>(group * kPlaces);
  part->places.stride = kPlaces;
  part->q_norms = part->arena.Take<float>(group);
  part->row_reaches = part->arena.Take<float>(group);
}

size_t LayerAttention::ChoiceBytes(size_t num_units) const {
  return call_.plan.Draws() ? KeptBytes(num_units) : ScoreBytes(num_units);
}

size_t LayerAttention::ScoreBytes(size_t num_units) const {
  const size_t num_rows = num_units * call_.spec.group_size();
  const size_t num_blocks = num_rows * kernels::NumWeightBlocks(call_.num_tokens);
  return ArenaBytes<float>(num_rows * call_.num_tokens) +
         (needs_sums_ ? 2 : 1) * ArenaBytes<float>(num_blocks);
}

LayerAttention::Scores LayerAttention::TakeScores(size_t num_units, Arena* arena) const {
  const size_t num_rows = num_units * call_.spec.group_size();
  const size_t num_blocks = num_rows * kernels::NumWeightBlocks(call_.num_tokens);
  Scores scores;
  scores.scores = arena->Take<float>(num_rows * call_.num_tokens);
  scores.maxima = arena->Take<float>(num_blocks);
  if (needs_sums_) scores.sums = arena->Take<float>(num_blocks);
  return scores;
}

void LayerAttention::TakeFromArenas() {
  for (uint32_t i = 0; i < call_.num_parts; ++i) {
    Part& part = parts_[i];
    part.q = part.arena.Take<float>(rows_max_ * k_padded_);
    part.spare = part.arena.Take<float>(rows_max_ * k_padded_);
    part.states = TakeStates(rows_max_, v_padded_, &part.arena);
    part.lo = part.arena.Take<uint32_t>(rows_max_);
    part.hi = part.arena.Take<uint32_t>(rows_max_);
    part.block = part.arena.Take<std::byte>(kernels::AttendBlockScratchBytes(k_padded_, v_padded_));
    if (!chooses_) continue;
    if (finds_) {
      part.indexed = IndexedScratch::Take(IndexedSize(), search_bytes_, &part.arena);
      continue;
    }
    TakeForScores(&part);
    if (call_.plan.bits != 0) {
      part.codes =
          part.arena.Take<std::byte>(call_.spec.group_size() * index::QueryCodeBytes(k_padded_));
      part.queries = part.arena.Take<index::EstimateQuery>(call_.spec.group_size());
    }
  }
  if (work_.num_ranges_max == 1) return;
  shared_states_ =
      TakeStates(work_.units.size() * work_.num_ranges_max * range_rows_, v_padded_, &shared_);
  if (!chooses_) return;
  if (call_.plan.Draws()) {
    shared_kept_ = TakeKept(work_.units.size(), &shared_);
  } else {
    shared_scores_ = TakeScores(work_.units.size(), &shared_);
  }
}

void LayerAttention::TakeForScores(Part* part) const {
  const bool own = work_.num_ranges_max == 1;
  if (!call_.plan.Draws()) {
    if (own) part->scores = TakeScores(1, &part->arena);
    part->head = HeadScratch::Take(HeadSize(), &part->arena);
    return;
  }
  const uint32_t group = call_.spec.group_size();
  if (own) part->kept = TakeKept(1, &part->arena);
  part->sample = part->arena.Take<float>(group * kMostSampled);
  part->thresholds = part->arena.Take<float>(group);
  part->tile = part->arena.Take<float>(group * kTileTokens);
  part->group = GroupScratch::Take(group, call_.num_tokens, v_padded_, &part->arena);
  if (!call_.indexes.empty()) TakePlaces(part);
}

bool LayerAttention::IsDense(uint32_t kv_head) const {
  return !sparse_ || call_.non_finite[kv_head] != 0;
}

TokenRange LayerAttention::Visible(uint64_t row) const {
  const uint64_t token = TokenOfRow(row);
  const uint64_t window = call_.spec.sliding_window;
  return {window == 0 || token < window ? 0 : token + 1 - window, token + 1};
}

TokenRange LayerAttention::Middle(uint64_t row) const {
  const uint64_t end = TokenOfRow(row) + 1;
  const uint64_t begin = std::min<uint64_t>(call_.plan.sink, end);
  return {begin, std::max(begin, end - std::min<uint64_t>(call_.plan.window, end))};
}

const index::KeyEstimates* LayerAttention::Estimates(uint32_t kv_head, size_t run) const {
  if (const auto* const draws = Draws(kv_head, run)) return &draws->estimates();
  if (call_.plan.bits == 0 || call_.estimates.empty()) return nullptr;
  return call_.estimates[kv_head * call_.num_runs + run];
}

const index::DrawIndex* LayerAttention::Draws(uint32_t kv_head, size_t run) const {
  if (!call_.plan.Draws()) return nullptr;
  const index::KeyIndex* const index = Index(kv_head, run);
  return index == nullptr ? nullptr : index->draws();
}

const index::KeyIndex* LayerAttention::Index(uint32_t kv_head, size_t run) const {
  return call_.indexes.empty() ? nullptr : call_.indexes[kv_head * call_.num_runs + run];
}

RowsView LayerAttention::Keys(uint32_t kv_head, size_t run, uint64_t first_token) const {
  const storage::KvRows& rows = call_.runs[kv_head * call_.num_runs + run];
  return {rows.k + first_token * k_padded_ * DTypeBytes(call_.kv_dtype), k_padded_, k_padded_,
          call_.kv_dtype};
}

RowsView LayerAttention::Values(uint32_t kv_head, size_t run, uint64_t first_token) const {
  const storage::KvRows& rows = call_.runs[kv_head * call_.num_runs + run];
  return {rows.v + first_token * v_padded_ * DTypeBytes(call_.kv_dtype), v_padded_, v_padded_,
          call_.kv_dtype};
}

void LayerAttention::ListHeadRuns() {
  head_runs_.clear();
  const auto at = [](const auto& list, size_t i) { return list.empty() ? nullptr : list[i]; };
  for (uint32_t head = 0; head < call_.spec.num_kv_heads; ++head) {
    for (size_t run = 0; run < call_.num_runs; ++run) {
      head_runs_.push_back({{run_begin_[run], run_begin_[run + 1]},
                            Keys(head, run, 0),
                            Values(head, run, 0),
                            Estimates(head, run),
                            at(call_.values, head_runs_.size()),
                            at(call_.means, head_runs_.size()),
                            Index(head, run)});
    }
  }
}

std::span<const HeadRun> LayerAttention::HeadRuns(uint32_t kv_head) const {
  return std::span(head_runs_).subspan(kv_head * call_.num_runs, call_.num_runs);
}

StateRows LayerAttention::StatesOf(const WorkItem& item, Part* part) const {
  if (work_.num_ranges_max == 1) return part->states;
  return StatesFrom(shared_states_, (item.unit * work_.num_ranges_max + item.range) * range_rows_);
}

index::ScoreView LayerAttention::ScoresOf(uint32_t unit, uint32_t group_head, Part* part) const {
  const bool own = work_.num_ranges_max == 1;
  const Scores& from = own ? part->scores : shared_scores_;
  const size_t row = (own ? 0 : unit * call_.spec.group_size()) + group_head;
  const size_t block = row * kernels::NumWeightBlocks(call_.num_tokens);
  return {from.scores + row * call_.num_tokens, work_.units[unit].tokens.end, from.maxima + block,
          from.sums == nullptr ? nullptr : from.sums + block};
}

void LayerAttention::RunPart(uint32_t part) {
  ATTNDB_CHECK(part < call_.num_parts);
  for (;;) {
    const size_t i = next_item_.fetch_add(1, std::memory_order_relaxed);
    if (i >= work_.items.size()) break;
    RunItem(work_.items[i], &parts_[part]);
    BookCost(work_.items[i].unit, &parts_[part]);
  }
  // What other parts have not finished yet, where scores are everyone's.
  if (!chooses_ || finds_ || call_.plan.Draws() || work_.num_ranges_max == 1) return;
  for (uint32_t unit = 0; unit < work_.units.size(); ++unit) {
    FinishHeads(unit, &parts_[part]);
    BookCost(unit, &parts_[part]);
  }
}

void LayerAttention::BookCost(uint32_t unit_idx, Part* part) {
  part->head_costs[work_.units[unit_idx].kv_head].Add(part->cost);
  part->cost = {};
}

void LayerAttention::RunItem(const WorkItem& item, Part* part) {
  const WorkUnit& unit = work_.units[item.unit];
  const bool dense = IsDense(unit.kv_head) || !chooses_;
  const int64_t start_ns = SteadyNowNanos();
  LoadQueries(unit, part);
  if (dense) {
    AttendRange(item, part);
  } else if (finds_) {
    FinishFound(item.unit, part);
    return;
  } else if (call_.plan.Draws()) {
    CollectRange(item, part);
  } else {
    ScoreRange(item, part);
  }
  const int64_t end_ns = SteadyNowNanos();
  (dense ? part->cost.attend_ns : part->cost.score_ns) += end_ns - start_ns;
  if (remaining_[item.unit].fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (dense) {
    FinishDense(item, part);
    part->cost.attend_ns += SteadyNowNanos() - end_ns;
  } else if (call_.plan.Draws()) {
    FinishDraw(item.unit, part);
  } else {
    FinishSparse(item, part);
  }
}

void LayerAttention::LoadQueries(const WorkUnit& unit, Part* part) const {
  part->prepared = nullptr;
  const uint32_t group = call_.spec.group_size();
  for (uint64_t r = 0; r < unit.num_rows; ++r) {
    LoadHeads(call_.q, unit.first_row + r, unit.kv_head * group, group, k_padded_,
              part->q + r * group * k_padded_);
  }
  ToHalfLayout(call_.spec.rope, call_.spec.head_dim, unit.num_rows * group, k_padded_, part->q,
               part->spare);
}

void LayerAttention::AttendRange(const WorkItem& item, Part* part) {
  const WorkUnit& unit = work_.units[item.unit];
  const StateRows states = StatesOf(item, part);
  kernels::InitStates(states, unit.num_rows * call_.spec.group_size(), v_padded_);
  const TokenRange range = unit.Range(item.range);
  if (IsDense(unit.kv_head)) {
    AttendTokens(unit, range, states, part);
    return;
  }
  // Sink and window around a middle that is left out. Such units have one row.
  const TokenRange middle = Middle(unit.first_row);
  AttendTokens(unit, Intersect(range, {0, middle.begin}), states, part);
  AttendTokens(unit, Intersect(range, {middle.end, unit.tokens.end}), states, part);
}

void LayerAttention::AttendTokens(const WorkUnit& unit, TokenRange range, const StateRows& states,
                                  Part* part) {
  for (size_t run = 0; run < call_.num_runs; ++run) {
    const TokenRange run_tokens = {run_begin_[run], run_begin_[run + 1]};
    const TokenRange tokens = Intersect(range, run_tokens);
    if (tokens.begin < tokens.end) AttendRun(unit, run, run_tokens, tokens, states, part);
  }
}

void LayerAttention::AttendRun(const WorkUnit& unit, size_t run, TokenRange run_tokens,
                               TokenRange range, const StateRows& states, Part* part) {
  const uint32_t group = call_.spec.group_size();
  const size_t num_q_rows = unit.num_rows * group;
  const uint64_t num_tokens = range.end - range.begin;
  const uint64_t first = range.begin - run_tokens.begin;
  bool all_visible = true;
  for (uint64_t r = 0; r < unit.num_rows; ++r) {
    const TokenRange seen = Intersect(Visible(unit.first_row + r), range);
    const bool empty = seen.begin == seen.end;
    const auto lo = static_cast<uint32_t>(empty ? 0 : seen.begin - range.begin);
    const auto hi = static_cast<uint32_t>(empty ? 0 : seen.end - range.begin);
    all_visible = all_visible && lo == 0 && hi == num_tokens;
    std::fill_n(part->lo + r * group, group, lo);
    std::fill_n(part->hi + r * group, group, hi);
  }
  const RowsView k = Keys(unit.kv_head, run, first);
  const RowsView v = Values(unit.kv_head, run, first);
  const uint64_t token_bytes = (k_padded_ + v_padded_) * DTypeBytes(call_.kv_dtype);
  part->cost.bytes_touched += num_tokens * token_bytes;
  if (num_q_rows >= kBlockMinRows) {
    kernels::AttendBlock(k, v, num_tokens, part->q, k_padded_, num_q_rows,
                         all_visible ? nullptr : part->lo, all_visible ? nullptr : part->hi,
                         Logit(call_.spec), states, part->block);
  } else if (all_visible) {
    kernels::AttendRows(k, v, num_tokens, part->q, k_padded_, num_q_rows, Logit(call_.spec),
                        states);
  } else {
    for (uint64_t r = 0; r < unit.num_rows; ++r) {
      const uint64_t lo = part->lo[r * group];
      kernels::AttendRows(Keys(unit.kv_head, run, first + lo),
                          Values(unit.kv_head, run, first + lo), part->hi[r * group] - lo,
                          part->q + r * group * k_padded_, k_padded_, group, Logit(call_.spec),
                          StatesFrom(states, r * group));
    }
  }
}

void LayerAttention::FinishDense(const WorkItem& item, Part* part) {
  const WorkUnit& unit = work_.units[item.unit];
  const size_t num_q_rows = unit.num_rows * call_.spec.group_size();
  const StateRows states = StatesOf({item.unit, 0}, part);
  for (uint32_t range = 1; range < unit.num_ranges; ++range) {
    kernels::MergeStates(StatesOf({item.unit, range}, part), states, num_q_rows, v_padded_);
  }
  WriteOutput(unit, states, part);
}

void LayerAttention::WriteOutput(const WorkUnit& unit, const StateRows& states, Part* part) {
  const uint32_t group = call_.spec.group_size();
  const uint32_t first_head = unit.kv_head * group;
  if (const float* const logits = DenominatorLogits(call_.spec, unit.kv_head)) {
    for (uint64_t r = 0; r < unit.num_rows; ++r) {
      kernels::AddToDenominators(logits, StatesFrom(states, r * group), group, v_padded_);
    }
  }
  // The states' own memory takes the finished rows.
  float* const lse = part->spare;
  kernels::FinishStates(states, unit.num_rows * group, v_padded_, states.out, states.out_stride,
                        lse);
  for (uint64_t r = 0; r < unit.num_rows; ++r) {
    const uint64_t row = unit.first_row + r;
    StoreHeads(states.out + r * group * states.out_stride, states.out_stride, row, first_head,
               group, call_.out);
    if (call_.lse == nullptr) continue;
    std::copy_n(lse + r * group, group, call_.lse + row * call_.spec.num_q_heads + first_head);
  }
}

void LayerAttention::WriteHeads(const WorkUnit& unit, uint32_t group_head, uint32_t count,
                                const StateRows& states, Part* part) {
  const uint32_t head = unit.kv_head * call_.spec.group_size() + group_head;
  if (const float* const logits = DenominatorLogits(call_.spec, unit.kv_head)) {
    kernels::AddToDenominators(logits + group_head, states, count, v_padded_);
  }
  float* const lse = part->spare;
  kernels::FinishStates(states, count, v_padded_, states.out, states.out_stride, lse);
  StoreHeads(states.out, states.out_stride, unit.first_row, head, count, call_.out);
  if (call_.lse == nullptr) return;
  std::copy_n(lse, count, call_.lse + unit.first_row * call_.spec.num_q_heads + head);
}

CallCost LayerAttention::cost() const {
  CallCost total;
  for (uint32_t head = 0; head < call_.spec.num_kv_heads; ++head) total.Add(head_cost(head));
  return total;
}

CallCost LayerAttention::head_cost(uint32_t kv_head) const {
  CallCost total;
  for (uint32_t i = 0; i < call_.num_parts; ++i) total.Add(parts_[i].head_costs[kv_head]);
  return total;
}

uint64_t LayerAttention::scratch_bytes() const {
  uint64_t bytes = shared_.size();
  for (const Part& part : parts_) bytes += part.arena.size();
  return bytes;
}

}  // namespace attndb::attention
