// Session: forwards to its implementation.
#include "attndb/session.h"

#include "attndb/units.h"
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
  ATTNDB_RETURN_IF_ERROR(handle_->CheckProcess());
  return handle_->InUse()->Append(layer, k, v);
}

Status Session::Attend(LayerId layer, const TensorView& q, const MutableTensorView& out,
                       float* lse) {
  ATTNDB_RETURN_IF_ERROR(handle_->CheckProcess());
  return handle_->InUse()->Attend(layer, q, out, lse);
}

Status Session::AttendPart(LayerId layer, const TensorView& q, const MutableTensorView& out,
                           float* lse, uint32_t part, uint32_t num_parts) {
  ATTNDB_RETURN_IF_ERROR(handle_->CheckProcess());
  return handle_->InUse()->AttendPart(layer, q, out, lse, part, num_parts);
}

Status Session::Update(const TensorView& q, const TensorView& k, const TensorView& v,
                       LayerId layer) {
  ATTNDB_RETURN_IF_ERROR(handle_->CheckProcess());
  ATTNDB_RETURN_IF_ERROR(internal::CheckQuery(handle_->InUse()->spec(), layer, q));
  if (q.rows() != k.rows()) {
    return Status::InvalidArgument("layer " + std::to_string(layer) + ": q has " +
                                   internal::RowsText(q.rows()) + ", expected " +
                                   internal::RowsText(k.rows()) + ", as k");
  }
  return handle_->InUse()->Append(layer, k, v);
}

Status Session::Attention(const TensorView& q, LayerId layer, const MutableTensorView& out) {
  ATTNDB_RETURN_IF_ERROR(handle_->CheckProcess());
  return handle_->InUse()->Attend(layer, q, out, nullptr);
}

Result<std::vector<CriticalTokens>> Session::Search(LayerId layer, const TensorView& q) {
  ATTNDB_RETURN_IF_ERROR(handle_->CheckProcess());
  return handle_->InUse()->Search(layer, q);
}

Status Session::ReadKv(LayerId layer, TokenRange range, const MutableTensorView& k,
                       const MutableTensorView& v) const {
  ATTNDB_RETURN_IF_ERROR(handle_->CheckProcess());
  return handle_->InUse()->ReadKv(layer, range, k, v);
}

uint64_t Session::num_tokens() const { return handle_->InUse()->num_tokens(); }
uint64_t Session::num_reused() const { return handle_->InUse()->chain().num_tokens(); }
ContextId Session::context_id() const { return PublicId(handle_->InUse()->chain().number()); }
const std::vector<SessionContext>& Session::contexts() const {
  return handle_->InUse()->chain().contexts();
}
int64_t Session::next_position() const { return handle_->InUse()->next_position(); }
const ModelSpec& Session::spec() const { return handle_->InUse()->spec(); }
uint64_t Session::memory_bytes() const { return handle_->InUse()->memory_bytes(); }

Status Session::Crop(uint64_t num_tokens) {
  ATTNDB_RETURN_IF_ERROR(handle_->CheckProcess());
  return handle_->InUse()->Crop(num_tokens);
}

Result<Session> Session::Fork() const {
  ATTNDB_RETURN_IF_ERROR(handle_->CheckProcess());
  ATTNDB_ASSIGN_OR_RETURN(std::unique_ptr<internal::SessionImpl> fork, handle_->InUse()->Fork());
  return Session(std::move(fork));
}

void Session::Reset() {
  if (handle_->CheckProcess().ok()) handle_->InUse()->Reset();
}
Status Session::SetFilter(std::span<const TokenRange> ranges) {
  ATTNDB_RETURN_IF_ERROR(handle_->CheckProcess());
  return handle_->InUse()->SetFilter(ranges);
}
Status Session::DropOldest(uint64_t n, const DropOptions& options) {
  ATTNDB_RETURN_IF_ERROR(handle_->CheckProcess());
  return handle_->InUse()->DropOldest(n, options);
}
uint64_t Session::num_dropped() const { return handle_->InUse()->truncation().num_dropped(); }
const std::vector<Cut>& Session::cuts() const { return handle_->InUse()->truncation().cuts(); }
Result<std::vector<TokenRange>> Session::HeaviestTokens(TokenRange among, uint64_t num_tokens) {
  ATTNDB_RETURN_IF_ERROR(handle_->CheckProcess());
  return handle_->InUse()->HeaviestTokens(among, num_tokens);
}
Status Session::Rebase(int64_t position) {
  ATTNDB_RETURN_IF_ERROR(handle_->CheckProcess());
  return handle_->InUse()->Rebase(position);
}
Status Session::SetPlan(std::string_view plan) {
  ATTNDB_RETURN_IF_ERROR(handle_->CheckProcess());
  return handle_->InUse()->SetPlan(plan);
}
Status Session::Load() {
  ATTNDB_RETURN_IF_ERROR(handle_->CheckProcess());
  return handle_->InUse()->Load();
}
Status Session::AwaitDerived(LayerId layer, const WaitOptions& options) {
  ATTNDB_RETURN_IF_ERROR(handle_->CheckProcess());
  return handle_->InUse()->AwaitDerived(layer, options);
}
bool Session::awaits_derived(LayerId layer) const {
  const auto session = handle_->InUse();
  return layer < session->spec().num_layers() && session->ProgressOf(layer).awaits_derived;
}
attndb::Explain Session::Explain() const {
  return handle_->CheckProcess().ok() ? handle_->InUse()->Explain() : attndb::Explain();
}
Result<LayerExplain> Session::Explain(LayerId layer) const {
  ATTNDB_RETURN_IF_ERROR(handle_->CheckProcess());
  return handle_->InUse()->ExplainLayer(layer);
}

}  // namespace attndb
