#include "index/custom/custom_keys.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "kernels/score.h"

namespace attndb::index {
namespace {

const CustomKeys& KeysOf(const IndexRun& run) { return static_cast<const CustomKeys&>(*run.index); }

std::string RangeText(uint64_t begin, uint64_t end) {
  return "[" + std::to_string(begin) + ", " + std::to_string(end) + ")";
}

// One search: the question to the type, and its answer.
class CustomSearch {
 public:
  CustomSearch(const IndexCall& call, float* rest, SearchCost* cost)
      : call_(call),
        first_(KeysOf(call.runs[0]).parts()),
        what_(DescribeCustom(first_.type->name, first_.layer, first_.kv_head)),
        rest_(rest),
        cost_(cost),
        selections_(call.num_q_rows) {}

  Status Run(FoundKeys* found) {
    Ask();
    ATTNDB_RETURN_IF_ERROR(CallCustom(
        what_, [this] { return first_.type->index->Select(query_, std::span(selections_)); }));
    for (size_t head = 0; head < selections_.size(); ++head) {
      ATTNDB_RETURN_IF_ERROR(CheckRanges(head));
      if (query_.is_query) ATTNDB_RETURN_IF_ERROR(TakeRest(head, &found[head]));
    }
    List(found);
    return Score(found);
  }

 private:
  void Ask() {
    for (size_t r = 0; r < call_.num_q_rows; ++r) {
      const float* const row = call_.q + r * call_.q_stride;
      q_.insert(q_.end(), row, row + first_.head_dim);
    }
    for (const IndexRun& run : call_.runs) {
      const CustomKeys::Parts& parts = KeysOf(run).parts();
      parts_.push_back({.object = parts.object.get(),
                        .num_rows = parts.num_rows,
                        .visible = {run.first_visible, run.num_visible}});
    }
    query_ = {.layer = first_.layer,
              .kv_head = first_.kv_head,
              .group_size = static_cast<uint32_t>(call_.num_q_rows),
              .head_dim = first_.head_dim,
              .v_head_dim = first_.v_head_dim,
              .scale = call_.spec.logit.scale,
              .soft_cap = call_.spec.logit.soft_cap,
              .q = q_,
              .parts = parts_,
              .values = std::span(call_.spec.arguments).first(first_.type->keys.size()),
              .is_query = call_.spec.kind == SearchKind::kSelected,
              .k = call_.spec.kind == SearchKind::kTopK ? call_.spec.k : 0};
  }

  Status Wrong(size_t head, const std::string& expected, const std::string& found) const {
    return Status::InvalidArgument(what_ + ", q head " + std::to_string(head) +
                                   " of the group: expected " + expected + ", found " + found);
  }

  Status CheckRanges(size_t head) const {
    const std::vector<CustomRange>& ranges = selections_[head].ranges;
    for (size_t i = 0; i < ranges.size(); ++i) {
      const CustomRange& range = ranges[i];
      const std::string text =
          "rows " + RangeText(range.begin, range.end) + " of part " + std::to_string(range.part);
      if (range.part >= parts_.size()) {
        return Wrong(head, "a part below " + std::to_string(parts_.size()), text);
      }
      if (range.begin >= range.end) {
        return Wrong(head, "a range whose begin is before its end", text);
      }
      const uint64_t num_rows = parts_[range.part].num_rows;
      if (range.end > num_rows) {
        return Wrong(head, "rows in " + RangeText(0, num_rows), text);
      }
      if (i == 0) continue;
      const CustomRange& before = ranges[i - 1];
      const bool ascends =
          before.part < range.part || (before.part == range.part && before.end <= range.begin);
      if (!ascends) {
        return Wrong(head,
                     "a range after rows " + RangeText(before.begin, before.end) + " of part " +
                         std::to_string(before.part),
                     text);
      }
    }
    return Status::Ok();
  }

  Status TakeRest(size_t head, FoundKeys* found) const {
    const CustomSelection& selection = selections_[head];
    const float lse = selection.rest_lse;
    if (std::isnan(lse) || lse == std::numeric_limits<float>::infinity()) {
      return Wrong(head, "rest_lse finite or -inf", std::to_string(lse));
    }
    if (!std::isfinite(lse)) return Status::Ok();
    const std::vector<float>& value = selection.rest_value;
    if (value.size() != first_.v_head_dim) {
      return Wrong(head, "rest_value of " + std::to_string(first_.v_head_dim) + " elements",
                   std::to_string(value.size()));
    }
    const auto wrong = std::ranges::find_if_not(value, [](float x) { return std::isfinite(x); });
    if (wrong != value.end()) {
      return Wrong(head, "a finite rest_value",
                   std::to_string(*wrong) + " in element " + std::to_string(wrong - value.begin()));
    }
    const size_t stride = kernels::RowElements(first_.v_head_dim);
    float* const rest = rest_ + head * stride;
    std::fill(std::ranges::copy(value, rest).out, rest + stride, 0.0f);
    found->rest = rest;
    found->rest_lse = lse;
    return Status::Ok();
  }

  // Rows of each run that are selected and visible.
  void List(FoundKeys* found) {
    counts_.assign(selections_.size() * parts_.size(), 0);
    for (size_t head = 0; head < selections_.size(); ++head) {
      FoundKeys& keys = found[head];
      for (const CustomRange& range : selections_[head].ranges) {
        const TokenRange visible = parts_[range.part].visible;
        const uint64_t end = std::min(range.end, visible.end);
        for (uint64_t row = std::max(range.begin, visible.begin); row < end; ++row) {
          keys.tokens[keys.count++] = static_cast<uint32_t>(row);
          ++counts_[head * parts_.size() + range.part];
        }
      }
    }
  }

  // Calls f(number, head, run, first, count) for each run of each q head: its keys stand at
  // [first, first + count) of the head's.
  template <typename F>
  void ForEachList(const F& f) const {
    for (size_t head = 0; head < selections_.size(); ++head) {
      size_t first = 0;
      for (size_t run = 0; run < parts_.size(); ++run) {
        const size_t number = head * parts_.size() + run;
        f(number, head, call_.runs[run], first, counts_[number]);
        first += counts_[number];
      }
    }
  }

  Status Score(FoundKeys* found) {
    storage::RowLease& rows = *call_.rows;
    rows.Clear();
    ForEachList([&](size_t, size_t head, const IndexRun& run, size_t first, size_t count) {
      rows.RequestListed(run.strip, found[head].tokens + first, count);
    });
    ATTNDB_RETURN_IF_ERROR(rows.Read());
    uint64_t num_scored = 0;
    ForEachList([&](size_t number, size_t head, const IndexRun& run, size_t first, size_t count) {
      const storage::ListedRows listed = rows.Listed(number);
      kernels::ScoreGather(listed.rows, listed.list, count, call_.q + head * call_.q_stride,
                           call_.q_stride, 1, found[head].scores + first, count);
      for (size_t i = first; i < first + count; ++i) found[head].tokens[i] += run.first_token;
      num_scored += count;
    });
    cost_->keys_scored += num_scored;
    cost_->rows_read += num_scored / call_.num_q_rows;
    cost_->bytes_touched +=
        num_scored * call_.num_channels() * DTypeBytes(call_.runs[0].keys.dtype);
    return Status::Ok();
  }

  const IndexCall& call_;
  const CustomKeys::Parts& first_;
  const std::string what_;
  float* const rest_;  // [q row], padded.
  SearchCost* const cost_;
  std::vector<float> q_;
  std::vector<CustomPart> parts_;  // By run.
  CustomQuery query_;
  std::vector<CustomSelection> selections_;  // By q row.
  std::vector<size_t> counts_;               // [q row][run]
};

}  // namespace

std::string DescribeCustom(const std::string& name, LayerId layer, uint32_t kv_head) {
  return "custom index '" + name + "', layer " + std::to_string(layer) + ", kv head " +
         std::to_string(kv_head);
}

Status CallCustom(const std::string& what, const std::function<Status()>& call) {
  try {
    const Status status = call();
    if (status.ok()) return status;
    return Status::InvalidArgument(what + ": " + std::string(status.message()));
  } catch (const std::bad_alloc&) {
    return Status::ResourceExhausted(what + ": no memory");
  } catch (const std::exception& error) {
    return Status::InvalidArgument(what + ": " + error.what());
  } catch (...) {
    return Status::InvalidArgument(what + ": threw what is no std::exception");
  }
}

Result<std::shared_ptr<const CustomKeys>> CustomKeys::Build(
    const std::shared_ptr<const CustomIndexType>& type, const CustomRows& rows, bool is_extension) {
  Parts parts = {.type = type,
                 .object = nullptr,
                 .layer = rows.layer,
                 .kv_head = rows.kv_head,
                 .num_rows = rows.num_rows,
                 .head_dim = rows.head_dim,
                 .v_head_dim = rows.v_head_dim};
  const std::string what = DescribeCustom(type->name, rows.layer, rows.kv_head) + ", " +
                           std::to_string(rows.num_rows) + " rows from position " +
                           std::to_string(rows.first_position);
  ATTNDB_RETURN_IF_ERROR(CallCustom(what, [&]() -> Status {
    ATTNDB_ASSIGN_OR_RETURN(parts.object,
                            is_extension ? type->index->Extend(rows) : type->index->Build(rows));
    if (parts.object == nullptr) {
      return Status::InvalidArgument("expected an object, found null");
    }
    parts.memory_bytes = parts.object->memory_bytes();
    return Status::Ok();
  }));
  return std::make_shared<const CustomKeys>(std::move(parts));
}

size_t CustomKeys::ScratchBytes(const IndexCall& call) const {
  return call.num_q_rows * kernels::RowElements(parts_.v_head_dim) * sizeof(float);
}

Status CustomKeys::Search(const IndexCall& call, void* scratch, FoundKeys* found,
                          SearchCost* cost) const {
  try {
    return CustomSearch(call, static_cast<float*>(scratch), cost).Run(found);
  } catch (const std::bad_alloc&) {
    return Status::ResourceExhausted(
        DescribeCustom(parts_.type->name, parts_.layer, parts_.kv_head) + ": no memory");
  }
}

}  // namespace attndb::index
