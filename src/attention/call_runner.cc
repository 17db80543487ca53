#include "attention/call_runner.h"

#include <algorithm>
#include <utility>

#include "common/check.h"
#include "common/clock.h"

namespace attndb::attention {

Status CallRunner::Begin(const LayerCall& call, const OperatorChoice& choice) {
  of_plan_ = choice.of_plan;
  view_.Reset(call, operators_[of_plan_]->cut());
  of_head_.clear();
  in_call_.clear();
  for (const size_t number : choice.heads) {
    Operator* const op = operators_[number].get();
    of_head_.push_back(op);
    if (std::ranges::count(in_call_, op) == 0) in_call_.push_back(op);
  }
  ATTNDB_CHECK(of_head_.size() == call.spec.num_kv_heads);
  ResetParts();
  for (Operator* const op : in_call_) op->Begin(view_);
  ATTNDB_RETURN_IF_ERROR(TakeScratch());
  next_item_.store(0, std::memory_order_relaxed);
  for (size_t i = 0; i < view_.work().units.size(); ++i) {
    std::construct_at(&progress_[i]);
    progress_[i].remaining.store(view_.unit(i).num_ranges, std::memory_order_relaxed);
    progress_[i].next_head.store(view_.group(), std::memory_order_relaxed);
  }
  return Status::Ok();
}

void CallRunner::ResetParts() {
  const LayerCall& call = view_.call();
  const uint32_t num_parts = view_.num_parts();
  parts_.resize(std::max<size_t>(parts_.size(), num_parts));
  meanwhile_.clear();
  for (uint32_t next = call.num_parts; next < num_parts; ++next) {
    meanwhile_.emplace_back(this, &parts_[next]);
  }
  for (uint32_t i = 0; i < num_parts; ++i) {
    parts_[i].number = i;
    parts_[i].rows.Reset(call.rows, i < meanwhile_.size() ? &meanwhile_[i] : nullptr);
    parts_[i].cost = {};
    parts_[i].head_costs.assign(call.spec.num_kv_heads, {});
  }
}

Status CallRunner::TakeScratch() {
  Arena measure;
  TakeFrom(&measure);
  ATTNDB_ASSIGN_OR_RETURN(scratch_, pool_->Lease(measure.used()));
  Arena arena(scratch_.data(), scratch_.size());
  TakeFrom(&arena);
  return Status::Ok();
}

void CallRunner::TakeFrom(Arena* arena) {
  progress_ = arena->Take<Progress>(view_.work().units.size());
  for (Operator* const op : in_call_) {
    if (view_.is_shared()) op->TakeShared(arena);
  }
  for (uint32_t i = 0; i < view_.num_parts(); ++i) {
    TakePart(&parts_[i], arena);
    for (Operator* const op : in_call_) op->TakePart(i, arena);
  }
}

void CallRunner::TakePart(Part* part, Arena* arena) const {
  const size_t num_rows = view_.rows_max();
  part->q = arena->Take<float>((1 + view_.call().turns.size()) * view_.q_elements_max());
  part->spare = arena->Take<float>(num_rows * view_.k_padded());
  part->states = TakeStates(num_rows, view_.v_padded(), arena);
}

Status CallRunner::RunPart(uint32_t number) {
  ATTNDB_CHECK(number < view_.call().num_parts);
  Status status = RunItems(&parts_[number]);
  if (!status.ok()) LeaveOutItems();
  for (size_t i = number; i < meanwhile_.size() && status.ok(); i += view_.call().num_parts) {
    status = meanwhile_[i].status();
  }
  return status;
}

const WorkItem* CallRunner::NextItem() {
  const std::vector<WorkItem>& items = view_.work().items;
  const size_t i = next_item_.fetch_add(1, std::memory_order_relaxed);
  return i < items.size() ? &items[i] : nullptr;
}

bool CallRunner::Meanwhile::TakeSome() {
  const WorkItem* const item = runner_->NextItem();
  if (item == nullptr) return false;
  Status status = runner_->RunItem(*item, part_);
  if (!status.ok()) {
    runner_->LeaveOutItems();
    if (status_.ok()) status_ = std::move(status);
  }
  return true;
}

Status CallRunner::RunItems(Part* part) {
  const WorkPlan& work = view_.work();
  while (const WorkItem* const item = NextItem()) ATTNDB_RETURN_IF_ERROR(RunItem(*item, part));
  // If units are shared, helps to finish the units of other parts.
  if (!view_.is_shared()) return Status::Ok();
  for (uint32_t unit = 0; unit < work.units.size(); ++unit) {
    if (OperatorOf(unit).finishes_by_head()) ATTNDB_RETURN_IF_ERROR(FinishHeads(unit, part));
  }
  return Status::Ok();
}

Status CallRunner::RunItem(const WorkItem& item, Part* part) {
  Operator& op = OperatorOf(item.unit);
  LoadQueries(item.unit, part);
  ATTNDB_RETURN_IF_ERROR(op.RunItem(item, part));
  BookCost(item.unit, part);
  Progress& progress = progress_[item.unit];
  if (progress.remaining.fetch_sub(1, std::memory_order_acq_rel) != 1) return Status::Ok();
  if (op.finishes_by_head()) {
    progress.next_head.store(0, std::memory_order_release);
    return FinishHeads(item.unit, part);
  }
  ATTNDB_RETURN_IF_ERROR(op.Finish(item.unit, 0, part));
  BookCost(item.unit, part);
  return Status::Ok();
}

Status CallRunner::FinishHeads(uint32_t unit, Part* part) {
  std::atomic<uint32_t>& next = progress_[unit].next_head;
  if (next.load(std::memory_order_relaxed) >= view_.group()) return Status::Ok();
  LoadQueries(unit, part);  // The part's own may be of another unit.
  for (;;) {
    const uint32_t head = next.fetch_add(1, std::memory_order_acq_rel);
    if (head >= view_.group()) break;
    ATTNDB_RETURN_IF_ERROR(OperatorOf(unit).Finish(unit, head, part));
  }
  BookCost(unit, part);
  return Status::Ok();
}

void CallRunner::LoadQueries(uint32_t unit, Part* part) const {
  const int64_t start_ns = SteadyNowNanos();
  view_.LoadQueries(view_.unit(unit), part);
  part->cost.attend_ns += SteadyNowNanos() - start_ns;
}

void CallRunner::BookCost(uint32_t unit, Part* part) const {
  part->head_costs[view_.unit(unit).kv_head].Add(part->cost);
  part->cost = {};
}

CallCost CallRunner::cost() const {
  CallCost total;
  for (uint32_t head = 0; head < view_.spec().num_kv_heads; ++head) total.Add(head_cost(head));
  return total;
}

CallCost CallRunner::head_cost(uint32_t kv_head) const {
  CallCost total;
  for (uint32_t i = 0; i < view_.num_parts(); ++i) total.Add(parts_[i].head_costs[kv_head]);
  return total;
}

}  // namespace attndb::attention
