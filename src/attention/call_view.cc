#include "attention/call_view.h"

#include <algorithm>

#include "attention/call_util.h"
#include "attention/tensor_rows.h"
#include "common/check.h"
#include "common/infinity.h"

namespace attndb::attention {

using kernels::RowElements;
using kernels::StateRows;
using kernels::StatesFrom;

void CallView::Reset(const LayerCall& call, const WorkCut& cut) {
  call_ = call;
  k_padded_ = RowElements(call.spec.head_dim);
  v_padded_ = RowElements(call.spec.v_head_dim);
  first_row_token_ = call.num_tokens - static_cast<uint64_t>(call.q.rows());
  work_.Reset({.num_kv_heads = call.spec.num_kv_heads,
               .group_size = call.spec.group_size(),
               .num_rows = static_cast<uint64_t>(call.q.rows()),
               .num_tokens = call.num_tokens,
               .window = call.spec.sliding_window,
               .cut = cut,
               .num_parts = call.num_parts});
  ListHeadRuns();
}

void CallView::ListHeadRuns() {
  head_runs_.clear();
  const auto at = [](const auto& list, size_t i) { return list.empty() ? nullptr : list[i]; };
  for (uint32_t head = 0; head < call_.spec.num_kv_heads; ++head) {
    uint64_t begin = 0;
    for (uint32_t run = 0; run < num_runs(); ++run) {
      const size_t i = head_runs_.size();
      const auto& [number, first, num_tokens, turn] = call_.parts[run];
      head_runs_.push_back({.tokens = {begin, begin + num_tokens},
                            .origin = begin - first,
                            .number = number,
                            .kv_head = head,
                            .k_elements = k_padded_,
                            .v_elements = v_padded_,
                            .dtype = call_.kv_dtype,
                            .q_shift = turn * q_elements_max(),
                            .estimates = EstimatesOf(i),
                            .values = at(call_.values, i),
                            .means = at(call_.means, i),
                            .index = at(call_.indexes, i),
                            .sums = at(call_.sums, i),
                            .ranking = at(call_.rankings, i)});
      begin += num_tokens;
    }
    ATTNDB_CHECK(begin == call_.num_tokens);
  }
}

uint32_t CallView::num_parts() const {
  return call_.num_parts * (call_.rows->parks() ? kMaxDepth : 1);
}

// An index that draws has estimates of its own.
const index::KeyEstimates* CallView::EstimatesOf(size_t i) const {
  if (call_.plan.bits == 0) return nullptr;
  const index::KeyIndex* const index = call_.indexes.empty() ? nullptr : call_.indexes[i];
  if (index != nullptr && index->draws() != nullptr) return &index->draws()->estimates();
  return call_.estimates.empty() ? nullptr : call_.estimates[i];
}

TokenRange CallView::Visible(uint64_t row) const {
  const uint64_t token = TokenOfRow(row);
  const uint64_t window = call_.spec.sliding_window;
  return {window == 0 || token < window ? 0 : token + 1 - window, token + 1};
}

TokenRange CallView::Middle(uint64_t row) const {
  return call_.plan.MiddleOf(TokenOfRow(row) + 1, call_.num_stored);
}

float CallView::DenominatorLogit(uint32_t q_head) const {
  const std::vector<float>& logits = call_.spec.denominator_logits;
  return logits.empty() ? -kInfinity : logits[q_head];
}

void CallView::LoadQueries(const WorkUnit& unit, Part* part) const {
  for (uint64_t r = 0; r < unit.num_rows; ++r) {
    LoadHeads(call_.q, unit.first_row + r, unit.kv_head * group(), group(), k_padded_,
              part->q + r * group() * k_padded_);
  }
  const size_t num_rows = unit.num_rows * group();
  ToHalfLayout(call_.spec.rope, call_.spec.head_dim, num_rows, k_padded_, part->q, part->spare);
  if (call_.shift != nullptr) call_.shift->Rows(part->q, num_rows, k_padded_, part->q);
  float* turned = part->q;
  for (const Turn& turn : call_.turns) {
    turned += q_elements_max();
    turn.Rows(part->q, num_rows, k_padded_, turned);
  }
}

void CallView::WriteHeads(const WorkUnit& unit, uint32_t first, uint32_t count,
                          const StateRows& states, Part* part) const {
  const uint32_t first_head = unit.kv_head * group() + first;
  if (const float* const logits = DenominatorLogits(call_.spec, unit.kv_head)) {
    for (uint64_t r = 0; r < unit.num_rows; ++r) {
      kernels::AddToDenominators(logits + first, StatesFrom(states, r * count), count, v_padded_);
    }
  }
  float* const lse = part->spare;
  kernels::FinishStates(states, unit.num_rows * count, v_padded_, states.out, states.out_stride,
                        lse);
  for (uint64_t r = 0; r < unit.num_rows; ++r) {
    const uint64_t row = unit.first_row + r;
    StoreHeads(states.out + r * count * states.out_stride, states.out_stride, row, first_head,
               count, call_.out);
    if (call_.lse == nullptr) continue;
    std::copy_n(lse + r * count, count, call_.lse + row * call_.spec.num_q_heads + first_head);
  }
}

}  // namespace attndb::attention
