#include "attention/dense_operator.h"

#include <algorithm>

#include "attention/call_util.h"
#include "common/clock.h"
#include "kernels/attend.h"
#include "kernels/attend_block.h"

namespace attndb::attention {
namespace {

using kernels::RowsFrom;
using kernels::RowsView;
using kernels::StateRows;
using kernels::StatesFrom;

// From this many q rows on, packing a tile of K for the blocked kernel pays.
constexpr size_t kBlockMinRows = 12;

// Maxima and sums that fill a line of the cache, or two that are fetched together: threads that
// write to one line tile by tile would wait for each other.
constexpr size_t kRowsPerLine = 128 / sizeof(float);

}  // namespace

void DenseOperator::Begin(const CallView& call) {
  call_ = &call;
  parts_.resize(call.call().num_parts);
  range_rows_ = (call.rows_max() + kRowsPerLine - 1) / kRowsPerLine * kRowsPerLine;
}

void DenseOperator::TakeShared(Arena* arena) {
  const WorkPlan& work = call_->work();
  shared_ =
      TakeStates(work.units.size() * work.num_ranges_max * range_rows_, call_->v_padded(), arena);
}

void DenseOperator::TakePart(uint32_t part, Arena* arena) {
  parts_[part].lo = arena->Take<uint32_t>(call_->rows_max());
  parts_[part].hi = arena->Take<uint32_t>(call_->rows_max());
  parts_[part].block = arena->Take<std::byte>(
      kernels::AttendBlockScratchBytes(call_->k_padded(), call_->v_padded()));
}

StateRows DenseOperator::StatesOf(const WorkItem& item, Part* part) const {
  if (!call_->is_shared()) return part->states;
  return StatesFrom(shared_, (item.unit * call_->work().num_ranges_max + item.range) * range_rows_);
}

Status DenseOperator::RunItem(const WorkItem& item, Part* part) {
  const int64_t start_ns = SteadyNowNanos();
  const WorkUnit& unit = call_->unit(item.unit);
  const StateRows states = StatesOf(item, part);
  kernels::InitStates(states, unit.num_rows * call_->group(), call_->v_padded());
  const TokenRange range = unit.Range(item.range);
  const TokenRange left_out = LeftOut(unit);
  AttendTokens(unit, Intersect(range, {0, left_out.begin}), states, part);
  AttendTokens(unit, Intersect(range, {left_out.end, unit.tokens.end}), states, part);
  part->cost.attend_ns += SteadyNowNanos() - start_ns;
  return Status::Ok();
}

void DenseOperator::AttendTokens(const WorkUnit& unit, TokenRange range, const StateRows& states,
                                 Part* part) {
  for (const HeadRun& run : call_->HeadRuns(unit.kv_head)) {
    const TokenRange tokens = Intersect(range, run.tokens);
    if (tokens.begin < tokens.end) AttendRun(unit, run, tokens, states, part);
  }
}

bool DenseOperator::FindVisible(const WorkUnit& unit, TokenRange range,
                                const Scratch& scratch) const {
  const uint32_t group = call_->group();
  bool all_visible = true;
  for (uint64_t r = 0; r < unit.num_rows; ++r) {
    const TokenRange seen = Intersect(call_->Visible(unit.first_row + r), range);
    const bool empty = seen.begin == seen.end;
    const auto lo = static_cast<uint32_t>(empty ? 0 : seen.begin - range.begin);
    const auto hi = static_cast<uint32_t>(empty ? 0 : seen.end - range.begin);
    all_visible = all_visible && lo == 0 && hi == range.end - range.begin;
    std::fill_n(scratch.lo + r * group, group, lo);
    std::fill_n(scratch.hi + r * group, group, hi);
  }
  return all_visible;
}

void DenseOperator::AttendRun(const WorkUnit& unit, const HeadRun& run, TokenRange range,
                              const StateRows& states, Part* part) {
  const Scratch& scratch = parts_[part->number];
  const uint32_t group = call_->group();
  const size_t num_q_rows = unit.num_rows * group;
  const uint64_t num_tokens = range.end - range.begin;
  const bool all_visible = FindVisible(unit, range, scratch);
  const RowsView k = RowsFrom(run.k, range.begin - run.tokens.begin);
  const RowsView v = RowsFrom(run.v, range.begin - run.tokens.begin);
  const kernels::LogitSpec logit = Logit(call_->spec());
  const size_t q_stride = call_->k_padded();
  part->cost.bytes_touched += num_tokens * (k.num_elements + v.num_elements) * DTypeBytes(k.dtype);
  if (num_q_rows >= kBlockMinRows) {
    kernels::AttendBlock(k, v, num_tokens, part->q, q_stride, num_q_rows,
                         all_visible ? nullptr : scratch.lo, all_visible ? nullptr : scratch.hi,
                         logit, states, scratch.block);
  } else if (all_visible) {
    kernels::AttendRows(k, v, num_tokens, part->q, q_stride, num_q_rows, logit, states);
  } else {
    for (uint64_t r = 0; r < unit.num_rows; ++r) {
      const uint64_t lo = scratch.lo[r * group];
      kernels::AttendRows(RowsFrom(k, lo), RowsFrom(v, lo), scratch.hi[r * group] - lo,
                          part->q + r * group * q_stride, q_stride, group, logit,
                          StatesFrom(states, r * group));
    }
  }
}

Status DenseOperator::Finish(uint32_t unit_idx, uint32_t /*group_head*/, Part* part) {
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
