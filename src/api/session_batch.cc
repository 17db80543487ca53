// SessionBatch: one queue of the sessions' calls for each layer; AttendBatch.
#include "attndb/session_batch.h"

#include <atomic>
#include <cstring>
#include <deque>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "attention/batch/call_queue.h"
#include "attndb/units.h"
#include "common/check.h"
#include "common/event_count.h"
#include "common/mutex.h"
#include "common/thread_pool.h"
#include "session/session_handle.h"
#include "session/view_check.h"

namespace attndb {
namespace {

// Rows [first_row, first_row + num_rows) of a view.
template <typename View>
View RowsOf(const View& view, int64_t first_row, int64_t num_rows) {
  using Byte = std::conditional_t<std::is_same_v<View, TensorView>, const std::byte, std::byte>;
  View rows = view;
  rows.data = static_cast<Byte*>(view.data) +
              first_row * view.strides[0] * static_cast<int64_t>(DTypeBytes(view.dtype));
  rows.shape[0] = num_rows;
  return rows;
}

void SetZero(const MutableTensorView& out) {
  auto* const data = static_cast<std::byte*>(out.data);
  const auto element = static_cast<int64_t>(DTypeBytes(out.dtype));
  for (int64_t row = 0; row < out.shape[0]; ++row) {
    for (int64_t head = 0; head < out.shape[1]; ++head) {
      for (int64_t i = 0; i < out.shape[2]; ++i) {
        const int64_t offset = row * out.strides[0] + head * out.strides[1] + i * out.strides[2];
        std::memset(data + offset * element, 0, static_cast<size_t>(element));
      }
    }
  }
}

Status CheckPart(uint32_t part, uint32_t num_parts) {
  if (part < num_parts) return Status::Ok();
  return Status::InvalidArgument("part " + FormatCount(part) + " of " + Counted(num_parts, "part"));
}

// Counts a part and says how many came before. Errors: all did, so that it is of another step.
Result<uint32_t> CountPart(LayerId layer, uint32_t num_parts, std::atomic<uint32_t>* num_seen) {
  const uint32_t num_before = num_seen->fetch_add(1);
  if (num_before < num_parts) return num_before;
  return Status::FailedPrecondition("all " + Counted(num_parts, "part") + " of layer " +
                                    std::to_string(layer) +
                                    " were called before; a batch is one step: make another");
}

}  // namespace

struct SessionBatch::Impl {
  struct Member {
    explicit Member(const Entry& entry, int64_t first) : of(entry), first_row(first) {}

    const Entry of;
    const int64_t first_row;
    std::atomic<bool> failed = false;  // Set once status is; a reader needs to see it soon.
    Mutex mutex;
    Status status ATTNDB_GUARDED_BY(mutex);
  };
  // A layer's calls: filled by the first part that comes to work them off. That takes a microsecond
  // or two, for which the others wait awake, as event_count.h does: one that slept at once would be
  // woken later than it takes to attend to a short context, in each layer of each token. (On a Zen
  // 4, two threads: 3.6 % of the time of a token without context.)
  struct Layer {
    std::atomic<uint32_t> num_appended = 0;  // Parts that have come.
    std::atomic<uint32_t> num_attended = 0;  // Like num_appended; the first part fills the queue.
    // Set after the queue is filled; a part that sees it set sees the queue.
    std::atomic<bool> is_filled = false;
    EventCount filled;
    attention::CallQueue queue;
  };

  explicit Impl(std::span<const Entry> entries) {
    for (const Entry& entry : entries) {
      ATTNDB_CHECK(entry.session != nullptr && entry.num_rows >= 1);
      members.emplace_back(entry, num_rows);
      num_rows += entry.num_rows;
    }
    if (!entries.empty()) layers.resize(entries.front().session->spec().layers.size());
  }

  Status CheckRows(LayerId layer, const char* name, int64_t rows) const;
  void Fail(Member* member, Status status);
  void Fill(LayerId layer, const MutableTensorView& out, uint32_t num_parts);

  std::deque<Member> members;
  std::deque<Layer> layers;
  int64_t num_rows = 0;
  std::atomic<size_t> num_failed = 0;
};

Status SessionBatch::Impl::CheckRows(LayerId layer, const char* name, int64_t rows) const {
  if (layer >= layers.size()) {
    return Status::InvalidArgument("layer " + std::to_string(layer) +
                                   " does not exist; the batch has " +
                                   Counted(layers.size(), "layer"));
  }
  if (rows == num_rows) return Status::Ok();
  return Status::InvalidArgument("the sessions have " + internal::RowsText(num_rows) +
                                 " in all, but " + name + " has " + internal::RowsText(rows));
}

void SessionBatch::Impl::Fail(Member* member, Status status) {
  MutexLock lock(&member->mutex);
  if (!member->status.ok()) return;
  member->status = std::move(status);
  member->failed.store(true);
  num_failed.fetch_add(1);
}

void SessionBatch::Impl::Fill(LayerId layer, const MutableTensorView& out, uint32_t num_parts) {
  std::vector<attention::QueuedCall> calls;
  for (uint32_t i = 0; i < members.size(); ++i) {
    const Member& member = members[i];
    if (member.failed.load()) {
      SetZero(RowsOf(out, member.first_row, member.of.num_rows));
      continue;
    }
    const internal::SessionHandle::Use session(member.of.session->handle_.get());
    const internal::LayerProgress progress = session->ProgressOf(layer);
    calls.push_back({.number = i,
                     .num_rows = static_cast<uint64_t>(member.of.num_rows),
                     .num_tokens = progress.num_tokens,
                     .is_ready = progress.is_in_memory});
  }
  layers[layer].queue.Reset(calls, num_parts);
}

SessionBatch::SessionBatch(std::span<const Entry> entries)
    : impl_(std::make_unique<Impl>(entries)) {}
SessionBatch::SessionBatch(SessionBatch&&) noexcept = default;
SessionBatch& SessionBatch::operator=(SessionBatch&&) noexcept = default;
SessionBatch::~SessionBatch() = default;

Status SessionBatch::AppendPart(LayerId layer, const TensorView& k, const TensorView& v,
                                uint32_t part, uint32_t num_parts) {
  ATTNDB_RETURN_IF_ERROR(CheckPart(part, num_parts));
  ATTNDB_RETURN_IF_ERROR(impl_->CheckRows(layer, "k", k.rows()));
  ATTNDB_RETURN_IF_ERROR(impl_->CheckRows(layer, "v", v.rows()));
  ATTNDB_RETURN_IF_ERROR(CountPart(layer, num_parts, &impl_->layers[layer].num_appended).status());
  for (size_t i = part; i < impl_->members.size(); i += num_parts) {
    Impl::Member& member = impl_->members[i];
    if (member.failed.load()) continue;
    Status status =
        member.of.session->Append(layer, RowsOf(k, member.first_row, member.of.num_rows),
                                  RowsOf(v, member.first_row, member.of.num_rows));
    if (!status.ok()) impl_->Fail(&member, std::move(status));
  }
  return Status::Ok();
}

Status SessionBatch::AttendPart(LayerId layer, const TensorView& q, const MutableTensorView& out,
                                float* lse, uint32_t part, uint32_t num_parts) {
  ATTNDB_RETURN_IF_ERROR(CheckPart(part, num_parts));
  ATTNDB_RETURN_IF_ERROR(impl_->CheckRows(layer, "q", q.rows()));
  ATTNDB_RETURN_IF_ERROR(impl_->CheckRows(layer, "out", out.rows()));
  Impl::Layer& of_layer = impl_->layers[layer];
  ATTNDB_ASSIGN_OR_RETURN(const uint32_t num_before,
                          CountPart(layer, num_parts, &of_layer.num_attended));
  if (num_before == 0) {
    impl_->Fill(layer, out, num_parts);
    of_layer.is_filled.store(true);
    of_layer.filled.WakeAll();
  } else {
    of_layer.filled.Await([&of_layer] { return of_layer.is_filled.load(); });
  }
  while (const std::optional<attention::CallPart> task = of_layer.queue.Next()) {
    Impl::Member& member = impl_->members[task->call];
    float* const rows_lse = lse == nullptr ? nullptr : lse + member.first_row * q.heads();
    Status status = member.of.session->AttendPart(
        layer, RowsOf(q, member.first_row, member.of.num_rows),
        RowsOf(out, member.first_row, member.of.num_rows), rows_lse, task->part, task->num_parts);
    if (!status.ok()) impl_->Fail(&member, std::move(status));
  }
  return Status::Ok();
}

size_t SessionBatch::size() const { return impl_->members.size(); }

Status SessionBatch::status(size_t entry) const {
  Impl::Member& member = impl_->members[entry];
  MutexLock lock(&member.mutex);
  return member.status;
}

bool SessionBatch::all_failed() const { return impl_->num_failed.load() == size(); }

// The queue as the parts of one call, by the threads of the first session's DB.
Status SessionBatch::Attend(LayerId layer, const TensorView& q, const MutableTensorView& out,
                            float* lse) {
  if (size() == 0) return impl_->CheckRows(layer, "q", q.rows());
  const internal::SessionHandle::Use first(impl_->members.front().of.session->handle_.get());
  ThreadPool* const pool = first->parts().pool;
  const uint32_t num_parts = pool->num_threads();
  std::vector<Status> statuses(num_parts);
  pool->ParallelFor(num_parts, [&](uint32_t part) {
    statuses[part] = AttendPart(layer, q, out, lse, part, num_parts);
  });
  return statuses.front();  // They fail on the same, or none does.
}

Status AttendBatch(std::span<Session* const> sessions, std::span<const int64_t> num_rows,
                   LayerId layer, const TensorView& q, const MutableTensorView& out, float* lse,
                   std::vector<Status>* statuses) {
  if (sessions.size() != num_rows.size()) {
    return Status::InvalidArgument(Counted(sessions.size(), "session") + ", but " +
                                   FormatCount(num_rows.size()) + " numbers of rows");
  }
  std::vector<SessionBatch::Entry> entries;
  for (size_t i = 0; i < sessions.size(); ++i) {
    if (num_rows[i] < 1 || num_rows[i] > q.rows()) {
      return Status::InvalidArgument("a session has " + std::to_string(num_rows[i]) +
                                     " rows of a batch, expected 1 to " +
                                     internal::RowsText(q.rows()));
    }
    entries.push_back({sessions[i], num_rows[i]});
  }
  SessionBatch batch(entries);
  ATTNDB_RETURN_IF_ERROR(batch.Attend(layer, q, out, lse));
  Status first_error;
  if (statuses != nullptr) statuses->clear();
  for (size_t i = 0; i < batch.size(); ++i) {
    Status status = batch.status(i);
    if (!status.ok() && first_error.ok()) {
      first_error = status.WithContext("session " + std::to_string(i) + " of the batch");
    }
    if (statuses != nullptr) statuses->push_back(std::move(status));
  }
  return statuses == nullptr ? first_error : Status::Ok();
}

}  // namespace attndb
