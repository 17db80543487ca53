// Session: forwards to its implementation; AttendBatch.
#include "attndb/session.h"

#include "common/check.h"
#include "session/session_handle.h"
#include "session/view_check.h"

namespace attndb {

Session::Session(std::unique_ptr<internal::SessionImpl> impl)
    : handle_(std::make_unique<internal::SessionHandle>(std::move(impl))) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

Status Session::Append(LayerId layer, const TensorView& k, const TensorView& v) {
  return handle_->InUse()->Append(layer, k, v);
}

Status Session::Attend(LayerId layer, const TensorView& q, const MutableTensorView& out,
                       float* lse) {
  return handle_->InUse()->Attend(layer, q, out, lse);
}

Status Session::AttendPart(LayerId layer, const TensorView& q, const MutableTensorView& out,
                           float* lse, uint32_t part, uint32_t num_parts) {
  return handle_->InUse()->AttendPart(layer, q, out, lse, part, num_parts);
}

Status Session::Update(const TensorView& q, const TensorView& k, const TensorView& v,
                       LayerId layer) {
  ATTNDB_RETURN_IF_ERROR(internal::CheckQuery(handle_->InUse()->spec(), layer, q));
  if (q.rows() != k.rows()) {
    return Status::InvalidArgument("layer " + std::to_string(layer) + ": q has " +
                                   std::to_string(q.rows()) + " rows, expected " +
                                   std::to_string(k.rows()) + ", as k");
  }
  return handle_->InUse()->Append(layer, k, v);
}

Status Session::Attention(const TensorView& q, LayerId layer, const MutableTensorView& out) {
  return handle_->InUse()->Attend(layer, q, out, nullptr);
}

Result<std::vector<CriticalTokens>> Session::Search(LayerId layer, const TensorView& q) {
  return handle_->InUse()->Search(layer, q);
}

Status Session::ReadKv(LayerId layer, TokenRange range, const MutableTensorView& k,
                       const MutableTensorView& v) const {
  return handle_->InUse()->ReadKv(layer, range, k, v);
}

uint64_t Session::num_tokens() const { return handle_->InUse()->num_tokens(); }
uint64_t Session::num_reused() const { return handle_->InUse()->chain().num_tokens(); }
ContextId Session::context_id() const { return handle_->InUse()->chain().context(); }
const std::vector<SessionContext>& Session::contexts() const {
  return handle_->InUse()->chain().contexts();
}
int64_t Session::next_position() const { return handle_->InUse()->next_position(); }
const ModelSpec& Session::spec() const { return handle_->InUse()->spec(); }
uint64_t Session::memory_bytes() const { return handle_->InUse()->memory_bytes(); }

Status Session::Crop(uint64_t num_tokens) { return handle_->InUse()->Crop(num_tokens); }

Result<Session> Session::Fork() const {
  ATTNDB_ASSIGN_OR_RETURN(std::unique_ptr<internal::SessionImpl> fork, handle_->InUse()->Fork());
  return Session(std::move(fork));
}

void Session::Reset() { handle_->InUse()->Reset(); }
Status Session::SetFilter(std::span<const TokenRange> ranges) {
  return handle_->InUse()->SetFilter(ranges);
}
Status Session::DropOldest(uint64_t n, const DropOptions& options) {
  return handle_->InUse()->DropOldest(n, options);
}
uint64_t Session::num_dropped() const { return handle_->InUse()->truncation().num_dropped(); }
const std::vector<Cut>& Session::cuts() const { return handle_->InUse()->truncation().cuts(); }
Result<std::vector<TokenRange>> Session::HeaviestTokens(TokenRange among, uint64_t num_tokens) {
  return handle_->InUse()->HeaviestTokens(among, num_tokens);
}
Status Session::Rebase(int64_t position) { return handle_->InUse()->Rebase(position); }
Status Session::SetPlan(std::string_view plan) { return handle_->InUse()->SetPlan(plan); }
Status Session::AwaitDerived(LayerId layer) { return handle_->InUse()->AwaitDerived(layer); }
bool Session::awaits_derived(LayerId layer) const { return handle_->InUse()->AwaitsDerived(layer); }
attndb::Explain Session::Explain() const { return handle_->InUse()->Explain(); }
Result<LayerExplain> Session::Explain(LayerId layer) const {
  return handle_->InUse()->ExplainLayer(layer);
}

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

}  // namespace

Status AttendBatch(std::span<Session* const> sessions, std::span<const int64_t> num_rows,
                   LayerId layer, const TensorView& q, const MutableTensorView& out, float* lse) {
  if (sessions.size() != num_rows.size()) {
    return Status::InvalidArgument(std::to_string(sessions.size()) + " sessions, but " +
                                   std::to_string(num_rows.size()) + " numbers of rows");
  }
  int64_t total_rows = 0;
  for (const int64_t n : num_rows) {
    if (n < 1 || n > q.rows()) {
      return Status::InvalidArgument("a session has " + std::to_string(n) +
                                     " rows of a batch, expected 1 to " + std::to_string(q.rows()));
    }
    total_rows += n;
  }
  if (total_rows != q.rows() || total_rows != out.rows()) {
    return Status::InvalidArgument("the sessions have " + std::to_string(total_rows) +
                                   " rows in all, but q has " + std::to_string(q.rows()) +
                                   " and out has " + std::to_string(out.rows()));
  }
  Status first_error;
  int64_t row = 0;
  for (size_t i = 0; i < sessions.size(); ++i) {
    float* const rows_lse = lse == nullptr ? nullptr : lse + row * q.heads();
    Status status = sessions[i]->Attend(layer, RowsOf(q, row, num_rows[i]),
                                        RowsOf(out, row, num_rows[i]), rows_lse);
    if (!status.ok() && first_error.ok()) {
      first_error = status.WithContext("session " + std::to_string(i) + " of the batch");
    }
    row += num_rows[i];
  }
  return first_error;
}

}  // namespace attndb
