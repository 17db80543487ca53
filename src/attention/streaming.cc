#include "attention/streaming.h"

#include <algorithm>

#include "attention/call_util.h"
#include "common/clock.h"
#include "kernels/attend.h"
#include "kernels/attend_block.h"

namespace attndb::attention {
namespace {

using kernels::RowsView;
using kernels::StateRows;
using kernels::StatesFrom;

// From this many q rows on, packing a tile of K for the blocked kernel pays.
constexpr size_t kBlockMinRows = 12;

// Maxima and sums that fill a line of the cache, or two that are fetched together: threads that
// write to one line tile by tile would wait for each other.
constexpr size_t kRowsPerLine = 128 / sizeof(float);

}  // namespace

void Streaming::Begin(const CallView& call) {
  call_ = &call;
  parts_.resize(call.num_parts());
  range_rows_ = (call.rows_max() + kRowsPerLine - 1) / kRowsPerLine * kRowsPerLine;
}

void Streaming::TakeShared(Arena* arena) {
  const WorkPlan& work = call_->work();
  shared_ =
      TakeStates(work.units.size() * work.num_ranges_max * range_rows_, call_->v_padded(), arena);
}

void Streaming::TakePart(uint32_t part, Arena* arena) {
  parts_[part].lo = arena->Take<uint32_t>(call_->rows_max());
  parts_[part].hi = arena->Take<uint32_t>(call_->rows_max());
  parts_[part].block = arena->Take<std::byte>(
      kernels::AttendBlockScratchBytes(call_->k_padded(), call_->v_padded()));
}

StateRows Streaming::StatesOf(const WorkItem& item, Part* part) const {
  if (!call_->is_shared()) return part->states;
  return StatesFrom(shared_, (item.unit * call_->work().num_ranges_max + item.range) * range_rows_);
}

Status Streaming::RunItem(const WorkItem& item, Part* part) {
  const int64_t start_ns = SteadyNowNanos();
  const WorkUnit& unit = call_->unit(item.unit);
  const StateRows states = StatesOf(item, part);
  kernels::InitStates(states, unit.num_rows * call_->group(), call_->v_padded());
  const TokenRange range = unit.Range(item.range);
  const TokenRange left_out = LeftOut(unit);
  ATTNDB_RETURN_IF_ERROR(AttendTokens(unit, Intersect(range, {0, left_out.begin}), states, part));
  ATTNDB_RETURN_IF_ERROR(
      AttendTokens(unit, Intersect(range, {left_out.end, unit.tokens.end}), states, part));
  part->cost.attend_ns += SteadyNowNanos() - start_ns;
  return Status::Ok();
}

Status Streaming::AttendTokens(const WorkUnit& unit, TokenRange range, const StateRows& states,
                               Part* part) {
  for (const HeadRun& run : call_->HeadRuns(unit.kv_head)) {
    const TokenRange tokens = Intersect(range, run.tokens);
    if (tokens.begin == tokens.end) continue;
    ATTNDB_RETURN_IF_ERROR(AttendRun(unit, run, tokens, states, part));
  }
  return Status::Ok();
}

Status Streaming::AttendRun(const WorkUnit& unit, const HeadRun& run, TokenRange range,
                            const StateRows& states, Part* part) {
  const uint32_t group = call_->group();
  const RowRange all = {unit.first_row, unit.num_rows};
  part->cost.bytes_touched += (range.end - range.begin) * (run.k_bytes() + run.v_bytes());
  if (unit.num_rows * group >= kBlockMinRows || FindVisible(all, range, parts_[part->number])) {
    return AttendRows(unit, all, run, range, states, part);
  }
  for (uint64_t r = 0; r < unit.num_rows; ++r) {
    const TokenRange seen = Intersect(call_->Visible(unit.first_row + r), range);
    ATTNDB_RETURN_IF_ERROR(
        AttendRows(unit, {unit.first_row + r, 1}, run, seen, StatesFrom(states, r * group), part));
  }
  return Status::Ok();
}

bool Streaming::FindVisible(RowRange rows, TokenRange range, const Scratch& scratch) const {
  const uint32_t group = call_->group();
  bool all_visible = true;
  for (uint64_t r = 0; r < rows.count; ++r) {
    const TokenRange seen = Intersect(call_->Visible(rows.first + r), range);
    const bool empty = seen.begin == seen.end;
    const auto lo = static_cast<uint32_t>(empty ? 0 : seen.begin - range.begin);
    const auto hi = static_cast<uint32_t>(empty ? 0 : seen.end - range.begin);
    all_visible = all_visible && lo == 0 && hi == range.end - range.begin;
    std::fill_n(scratch.lo + r * group, group, lo);
    std::fill_n(scratch.hi + r * group, group, hi);
  }
  return all_visible;
}

// REQUIRES: if they are few, all of the rows see all of the range.
Status Streaming::AttendRows(const WorkUnit& unit, RowRange rows, const HeadRun& run,
                             TokenRange range, const StateRows& states, Part* part) {
  const Scratch& scratch = parts_[part->number];
  const kernels::LogitSpec logit = Logit(call_->spec());
  const size_t num_q_rows = rows.count * call_->group();
  const size_t stride = call_->k_padded();
  const float* const q =
      part->q + run.q_shift + (rows.first - unit.first_row) * call_->group() * stride;
  const uint64_t first = run.RowOf(range.begin);
  part->rows.Clear();
  const size_t keys = part->rows.Request(run.k_strip(), first, range.end - range.begin);
  const size_t values = part->rows.Request(run.v_strip(), first, range.end - range.begin);
  ATTNDB_RETURN_IF_ERROR(part->rows.Read());
  storage::ForEachPiece(
      part->rows, keys, values,
      [&](const RowsView& k, const RowsView& v, uint64_t from, uint64_t num_tokens) {
        if (num_q_rows < kBlockMinRows) {
          kernels::AttendRows(k, v, num_tokens, q, stride, num_q_rows, logit, states);
          return;
        }
        const uint64_t begin = range.begin + from;
        const bool all_visible = FindVisible(rows, {begin, begin + num_tokens}, scratch);
        kernels::AttendBlock(k, v, num_tokens, q, stride, num_q_rows,
                             all_visible ? nullptr : scratch.lo, all_visible ? nullptr : scratch.hi,
                             logit, states, scratch.block);
      });
  return Status::Ok();
}

Status Streaming::Finish(uint32_t unit_idx, uint32_t /*group_head*/, Part* part) {
  const int64_t start_ns = SteadyNowNanos();
  const WorkUnit& unit = call_->unit(unit_idx);
  const StateRows states = StatesOf({unit_idx, 0}, part);
  for (uint32_t range = 1; range < unit.num_ranges; ++range) {
    kernels::MergeStates(StatesOf({unit_idx, range}, part), states, unit.num_rows * call_->group(),
                         call_->v_padded());
  }
  call_->WriteHeads(unit, 0, call_->group(), states, part);
  part->cost.attend_ns += SteadyNowNanos() - start_ns;
  return Status::Ok();
}

}  // namespace attndb::attention
