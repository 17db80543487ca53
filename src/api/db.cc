// DB: forwards to the open store; Import.
#include "attndb/db.h"

#include <algorithm>
#include <chrono>

#include "api/database.h"
#include "api/import.h"
#include "attndb/units.h"
#include "attndb/version.h"
#include "common/check.h"
#include "kernels/isa.h"
#include "session/view_check.h"
#include "storage/io/file_system.h"

namespace attndb {
namespace {

constexpr std::string_view kDefaultTenant = "default";

bool IsTenantName(std::string_view name) {
  if (name.empty() || name.size() > 64) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

// The tenant of Open's handle gets reports about the whole store.
bool IsOwner(std::string_view tenant) { return tenant == kDefaultTenant; }

TensorView RowsOf(const TensorView& view, uint64_t begin, uint64_t end) {
  TensorView rows = view;
  rows.data =
      static_cast<const std::byte*>(view.data) +
      static_cast<int64_t>(begin) * view.strides[0] * static_cast<int64_t>(DTypeBytes(view.dtype));
  rows.shape[0] = static_cast<int64_t>(end - begin);
  return rows;
}

// All layers have K and V of `num_tokens` tokens, in the shapes of the spec.
Status CheckLayers(const ModelSpec& spec, uint64_t num_tokens, std::span<const LayerKv> layers) {
  if (layers.size() != spec.num_layers()) {
    return Status::InvalidArgument("K and V of " + Counted(layers.size(), "layer") + ", expected " +
                                   FormatCount(spec.num_layers()));
  }
  for (LayerId layer = 0; layer < spec.num_layers(); ++layer) {
    const LayerSpec& shape = spec.layers[layer];
    const LayerKv& kv = layers[layer];
    ATTNDB_RETURN_IF_ERROR(
        internal::CheckInput("k", layer, kv.k, shape.num_kv_heads, shape.head_dim));
    ATTNDB_RETURN_IF_ERROR(
        internal::CheckInput("v", layer, kv.v, shape.num_kv_heads, shape.v_head_dim));
    for (const TensorView* view : {&kv.k, &kv.v}) {
      if (static_cast<uint64_t>(view->rows()) == num_tokens) continue;
      return Status::InvalidArgument("layer " + std::to_string(layer) + ": " +
                                     (view == &kv.k ? "k" : "v") + " has " +
                                     internal::RowsText(view->rows()) + ", expected " +
                                     FormatCount(num_tokens) + ", one a token");
    }
  }
  return Status::Ok();
}

Status CheckQueries(const ModelSpec& spec, uint64_t num_tokens,
                    std::span<const TensorView> queries) {
  if (queries.empty()) return Status::Ok();
  if (queries.size() != spec.num_layers()) {
    return Status::InvalidArgument("queries of " + Counted(queries.size(), "layer") +
                                   ", expected none or " + FormatCount(spec.num_layers()));
  }
  for (LayerId layer = 0; layer < spec.num_layers(); ++layer) {
    const LayerSpec& shape = spec.layers[layer];
    ATTNDB_RETURN_IF_ERROR(
        internal::CheckInput("queries", layer, queries[layer], shape.num_q_heads, shape.head_dim));
    if (static_cast<uint64_t>(queries[layer].rows()) > num_tokens) {
      return Status::InvalidArgument("layer " + std::to_string(layer) + ": queries have " +
                                     internal::RowsText(queries[layer].rows()) +
                                     ", expected at most " + FormatCount(num_tokens));
    }
  }
  return Status::Ok();
}

// The caller's arrays, as they lie.
class ViewSource final : public internal::ImportSource {
 public:
  ViewSource(uint64_t num_tokens, std::span<const LayerKv> layers,
             std::span<const TensorView> queries)
      : num_tokens_(num_tokens), layers_(layers), queries_(queries) {}

  Result<LayerKv> Rows(LayerId layer, TokenRange range) override {
    return LayerKv{RowsOf(layers_[layer].k, range.begin, range.end),
                   RowsOf(layers_[layer].v, range.begin, range.end)};
  }
  uint64_t num_queries(LayerId layer) const override {
    return queries_.empty() ? 0 : static_cast<uint64_t>(queries_[layer].rows());
  }
  Result<TensorView> Queries(LayerId layer, TokenRange range) override {
    const uint64_t first = num_tokens_ - num_queries(layer);
    return RowsOf(queries_[layer], range.begin - first, range.end - first);
  }

 private:
  const uint64_t num_tokens_;
  const std::span<const LayerKv> layers_;
  const std::span<const TensorView> queries_;
};

}  // namespace

const char* Version() { return ATTNDB_VERSION; }

const char* KernelIsa() { return kernels::IsaName(kernels::CurrentIsa().used).data(); }

const char* CpuIsa() { return kernels::IsaName(kernels::BestIsaOfCpu()).data(); }

const char* KernelInstructionSets() { return kernels::CurrentInstructionSets(); }

DB::DB(std::shared_ptr<internal::Database> database, std::string tenant)
    : database_(std::move(database)), tenant_(std::move(tenant)) {}

Result<DB> DB::Open(const std::string& path, const DBOptions& options) {
  ATTNDB_ASSIGN_OR_RETURN(std::shared_ptr<internal::Database> database,
                          internal::Database::Open(path, options, storage::PosixFileSystem()));
  return DB(std::move(database), std::string(kDefaultTenant));
}

Result<DB> DB::ForTenant(std::string_view name) const {
  if (!IsTenantName(name)) {
    return Status::InvalidArgument("tenant name '" + std::string(name.substr(0, 80)) +
                                   "', expected 1 to 64 of letters, digits, '.', '_' and '-'");
  }
  return DB(database_, std::string(name));
}

Result<SessionStart> DB::CreateSession(const ModelSpec& spec, std::span<const TokenId> tokens,
                                       const SessionOptions& options) const {
  ATTNDB_RETURN_IF_ERROR(database_->CheckProcess());
  const uint64_t max_reuse = tokens.empty() ? 0 : tokens.size() - 1;  // One is left to run.
  ATTNDB_ASSIGN_OR_RETURN(std::unique_ptr<internal::SessionImpl> session,
                          database_->OpenSession(tenant_, spec, tokens, max_reuse, options));
  const auto num_reused = static_cast<int64_t>(session->chain().num_tokens());
  return SessionStart{Session(std::move(session)),
                      std::vector<TokenId>(tokens.begin() + num_reused, tokens.end())};
}

Result<std::vector<SessionStart>> DB::CreateSessions(
    const ModelSpec& spec, std::span<const std::span<const TokenId>> prompts,
    const SessionOptions& options) const {
  std::vector<SessionStart> starts;
  for (size_t i = 0; i < prompts.size(); ++i) {
    Result<SessionStart> start = CreateSession(spec, prompts[i], options);
    if (!start.ok()) return start.status().WithContext("prompt " + std::to_string(i));
    starts.push_back(*std::move(start));
  }
  return starts;
}

Result<Session> DB::CreateSessionOver(const ModelSpec& spec, std::span<const std::string> contexts,
                                      const SessionOptions& options) const {
  ATTNDB_RETURN_IF_ERROR(database_->CheckProcess());
  ATTNDB_ASSIGN_OR_RETURN(std::unique_ptr<internal::SessionImpl> session,
                          database_->OpenSessionOver(tenant_, spec, contexts, options));
  return Session(std::move(session));
}

Result<ContextId> DB::Import(const ModelSpec& spec, std::span<const TokenId> tokens,
                             std::span<const LayerKv> layers, const StoreOptions& options,
                             std::span<const TensorView> queries) const {
  ATTNDB_RETURN_IF_ERROR(database_->CheckProcess());
  ATTNDB_RETURN_IF_ERROR(spec.Validate());
  ATTNDB_RETURN_IF_ERROR(CheckLayers(spec, tokens.size(), layers));
  ATTNDB_RETURN_IF_ERROR(CheckQueries(spec, tokens.size(), queries));
  ViewSource source(tokens.size(), layers, queries);
  ATTNDB_ASSIGN_OR_RETURN(
      const ContextNumber number,
      internal::ImportContext(
          database_.get(), {.tenant = tenant_, .spec = &spec, .tokens = tokens, .store = options},
          &source));
  return PublicId(number);
}

Status DB::CheckOwn(const Session& session) const {
  ATTNDB_RETURN_IF_ERROR(database_->CheckProcess());
  if (session.handle_->InUse()->BelongsTo(database_.get(), tenant_)) return Status::Ok();
  return Status::InvalidArgument("the session belongs to another store or tenant");
}

Result<ContextId> DB::Store(Session& session, std::span<const TokenId> tokens,
                            const StoreOptions& options) const {
  ATTNDB_RETURN_IF_ERROR(CheckOwn(session));
  ATTNDB_ASSIGN_OR_RETURN(const ContextNumber number,
                          database_->Store(session.handle_->InUse().get(), tokens, options));
  return PublicId(number);
}

Result<PendingStore> DB::StoreAsync(Session& session, std::span<const TokenId> tokens,
                                    const StoreOptions& options) const {
  ATTNDB_RETURN_IF_ERROR(CheckOwn(session));
  ATTNDB_ASSIGN_OR_RETURN(std::shared_future<Result<ContextId>> result,
                          database_->StoreAsync(session.handle_->InUse().get(), tokens, options));
  return PendingStore(std::move(result), database_);
}

PendingStore::PendingStore(std::shared_future<Result<ContextId>> result,
                           std::weak_ptr<internal::Database> database)
    : result_(std::move(result)), database_(std::move(database)) {}

bool PendingStore::done() const {
  constexpr std::chrono::seconds kNow(0);
  return result_.wait_for(kNow) == std::future_status::ready;
}

Result<ContextId> PendingStore::Wait() const {
  if (const auto database = done() ? nullptr : database_.lock()) {
    ATTNDB_RETURN_IF_ERROR(database->CheckProcess());
    ATTNDB_RETURN_IF_ERROR(database->store()->merger()->CheckMayWait("wait for a store"));
  }
  return result_.get();
}

Result<PrefixExplain> DB::ExplainPrefix(const ModelSpec& spec, std::span<const TokenId> tokens,
                                        const SessionOptions& options) const {
  ATTNDB_RETURN_IF_ERROR(database_->CheckProcess());
  return database_->ExplainPrefix(tenant_, spec, tokens, options);
}

Result<RoomReport> DB::CheckRoom(const ModelSpec& spec, std::span<const TokenId> tokens,
                                 const RoomOptions& options) const {
  ATTNDB_RETURN_IF_ERROR(database_->CheckProcess());
  return database_->CheckRoom(tenant_, spec, tokens, options);
}

Result<FindResult> DB::Find(const ModelSpec& spec, const FindQuery& query,
                            const FindOptions& options) const {
  ATTNDB_RETURN_IF_ERROR(database_->CheckProcess());
  return database_->FindPassages(tenant_, spec, query, options);
}

Result<std::vector<ContextInfo>> DB::List() const {
  ATTNDB_RETURN_IF_ERROR(database_->CheckProcess());
  return database_->store()->admin()->List(tenant_);
}

Result<ContextInfo> DB::Describe(std::string_view context) const {
  ATTNDB_RETURN_IF_ERROR(database_->CheckProcess());
  return database_->store()->admin()->Describe(tenant_, context);
}

Result<std::vector<TokenId>> DB::Tokens(std::string_view context) const {
  ATTNDB_RETURN_IF_ERROR(database_->CheckProcess());
  ATTNDB_ASSIGN_OR_RETURN(store::StoredText text,
                          database_->store()->lookup()->TextOf(tenant_, context));
  return std::move(text.tokens);
}

Result<std::string> DB::Note(std::string_view context) const {
  ATTNDB_RETURN_IF_ERROR(database_->CheckProcess());
  return database_->store()->admin()->Note(tenant_, context);
}

Status DB::Pin(std::string_view context, bool pinned) const {
  ATTNDB_RETURN_IF_ERROR(database_->CheckProcess());
  return database_->store()->admin()->Pin(tenant_, context, pinned);
}

Status DB::SetTtl(std::string_view context, std::optional<std::chrono::seconds> ttl) const {
  ATTNDB_RETURN_IF_ERROR(database_->CheckProcess());
  return database_->store()->admin()->SetTtl(tenant_, context, ttl);
}

Status DB::Rename(std::string_view context, std::string_view name) const {
  ATTNDB_RETURN_IF_ERROR(database_->CheckProcess());
  return database_->store()->publisher()->Rename(tenant_, context, name);
}

Status DB::Drop(std::string_view context) const {
  ATTNDB_RETURN_IF_ERROR(database_->CheckProcess());
  return database_->store()->publisher()->Drop(tenant_, context);
}

Status DB::SetQuota(uint64_t bytes) const {
  ATTNDB_RETURN_IF_ERROR(database_->CheckProcess());
  return database_->store()->admin()->SetQuota(tenant_, bytes);
}

Status DB::DeclareEqual(std::string_view fingerprint_a, std::string_view fingerprint_b) const {
  ATTNDB_RETURN_IF_ERROR(database_->CheckProcess());
  return database_->store()->admin()->DeclareEqual(tenant_, fingerprint_a, fingerprint_b);
}

Status DB::RevokeEqual(std::string_view fingerprint_a, std::string_view fingerprint_b) const {
  ATTNDB_RETURN_IF_ERROR(database_->CheckProcess());
  return database_->store()->admin()->RevokeEqual(tenant_, fingerprint_a, fingerprint_b);
}

Result<VerifyReport> DB::Verify(const VerifyOptions& options) const {
  ATTNDB_RETURN_IF_ERROR(database_->CheckProcess());
  using Scope = store::Verifier::Scope;
  return database_->store()->verifier()->Verify(
      tenant_, IsOwner(tenant_) ? Scope::kStore : Scope::kTenant, options);
}

Status DB::Compact(const CompactOptions& options) const {
  ATTNDB_RETURN_IF_ERROR(database_->CheckProcess());
  return database_->store()->merger()->Compact(tenant_, options);
}

Result<BuildReport> DB::Build(std::string_view context, std::string_view index,
                              const BuildOptions& options) const {
  ATTNDB_RETURN_IF_ERROR(database_->CheckProcess());
  return database_->Build(tenant_, context, index, options);
}

Status DB::WaitForBackground(const WaitOptions& options) const {
  ATTNDB_RETURN_IF_ERROR(database_->CheckProcess());
  return database_->store()->WaitForBackground(tenant_, IsOwner(tenant_), options.progress);
}

Result<DBStats> DB::Stats() const {
  ATTNDB_RETURN_IF_ERROR(database_->CheckProcess());
  return database_->Stats(tenant_, IsOwner(tenant_));
}

Status DB::CheckPlace() const {
  ATTNDB_RETURN_IF_ERROR(database_->CheckProcess());
  return database_->store()->CheckPlace();
}

Result<MachineProfile> DB::Machine(bool measure) const {
  if (measure) ATTNDB_RETURN_IF_ERROR(database_->prices()->Measure());
  const planner::MachineConstants& machine = database_->prices()->Get();
  return MachineProfile{.cpu = machine.cpu,
                        .isa = machine.isa,
                        .num_threads = machine.num_threads,
                        .measured = machine.measured,
                        .one_thread_bytes_per_ns = machine.one_bytes_per_ns,
                        .all_threads_bytes_per_ns = machine.all_bytes_per_ns,
                        .attend_ns = {machine.attend.begin(), machine.attend.end()},
                        .score_ns = {machine.score.begin(), machine.score.end()},
                        .scan8_ns = {machine.Scan(8).begin(), machine.Scan(8).end()},
                        .scan4_ns = {machine.Scan(4).begin(), machine.Scan(4).end()},
                        .select_ns = machine.select,
                        .row_ns = machine.row,
                        .hop_ns = machine.hop};
}

}  // namespace attndb
