// DB: forwards to the open store; Import.
#include "attndb/db.h"

#include <algorithm>
#include <limits>

#include "attndb/version.h"
#include "common/check.h"
#include "db/database.h"
#include "db/view_check.h"
#include "kernels/isa.h"
#include "storage/io/file_system.h"
#include "storage/kv/kv_layout.h"

namespace attndb {
namespace {

constexpr std::string_view kDefaultTenant = "default";
// Tokens that Import seals at a time: bounds the memory beside the caller's arrays.
constexpr uint64_t kImportSegmentTokens = 4096;

bool IsTenantName(std::string_view name) {
  if (name.empty() || name.size() > 64) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

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
    return Status::InvalidArgument("K and V of " + std::to_string(layers.size()) +
                                   " layers, expected " + std::to_string(spec.num_layers()));
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
                                     std::to_string(view->rows()) + " rows, expected " +
                                     std::to_string(num_tokens) + ", one a token");
    }
  }
  return Status::Ok();
}

Status CheckQueries(const ModelSpec& spec, uint64_t num_tokens,
                    std::span<const TensorView> queries) {
  if (queries.empty()) return Status::Ok();
  if (queries.size() != spec.num_layers()) {
    return Status::InvalidArgument("queries of " + std::to_string(queries.size()) +
                                   " layers, expected none or " +
                                   std::to_string(spec.num_layers()));
  }
  for (LayerId layer = 0; layer < spec.num_layers(); ++layer) {
    const LayerSpec& shape = spec.layers[layer];
    ATTNDB_RETURN_IF_ERROR(
        internal::CheckInput("queries", layer, queries[layer], shape.num_q_heads, shape.head_dim));
    if (static_cast<uint64_t>(queries[layer].rows()) > num_tokens) {
      return Status::InvalidArgument("layer " + std::to_string(layer) + ": queries have " +
                                     std::to_string(queries[layer].rows()) +
                                     " rows, expected at most " + std::to_string(num_tokens));
    }
  }
  return Status::Ok();
}

// Appends tokens [begin, end) of every layer, and offers their queries to the sample.
Status AppendLayers(internal::SessionImpl* session, uint64_t num_tokens, uint64_t begin,
                    uint64_t end, std::span<const LayerKv> layers,
                    std::span<const TensorView> queries) {
  for (LayerId layer = 0; layer < layers.size(); ++layer) {
    ATTNDB_RETURN_IF_ERROR(session->Append(layer, RowsOf(layers[layer].k, begin, end),
                                           RowsOf(layers[layer].v, begin, end)));
    if (queries.empty()) continue;
    // Rows of queries belong to the last tokens.
    const uint64_t first = num_tokens - static_cast<uint64_t>(queries[layer].rows());
    const uint64_t from = std::max(begin, first);
    if (from >= end) continue;
    session->query_sample().Offer(session->spec(), layer,
                                  RowsOf(queries[layer], from - first, end - first), from - begin,
                                  session->first_position() + static_cast<int64_t>(from));
  }
  return Status::Ok();
}

// From where the session is to the end, sealing a piece at a time. `has_checkpoint`: the session's
// context is one of ours.
Result<ContextId> ImportPieces(internal::Database* database, internal::SessionImpl* session,
                               std::span<const TokenId> tokens, std::span<const LayerKv> layers,
                               const StoreOptions& options, std::span<const TensorView> queries,
                               bool* has_checkpoint) {
  for (;;) {
    const uint64_t begin = session->num_tokens();
    const uint64_t end = std::min<uint64_t>(begin + kImportSegmentTokens, tokens.size());
    if (begin < end) {
      ATTNDB_RETURN_IF_ERROR(AppendLayers(session, tokens.size(), begin, end, layers, queries));
    }
    StoreOptions store;
    if (end == tokens.size()) store = options;
    store.drop_base = options.drop_base || *has_checkpoint;  // Our own, from the second on.
    Result<ContextId> id = database->Store(session, tokens.first(end), store);
    if (!id.ok() || end == tokens.size()) return id;
    *has_checkpoint = true;
  }
}

}  // namespace

const char* Version() { return ATTNDB_VERSION; }

const char* KernelIsa() { return kernels::IsaName(kernels::CurrentIsa().used).data(); }

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
  const uint64_t max_reuse = tokens.empty() ? 0 : tokens.size() - 1;  // One is left to run.
  ATTNDB_ASSIGN_OR_RETURN(std::unique_ptr<internal::SessionImpl> session,
                          database_->OpenSession(tenant_, spec, tokens, max_reuse, options));
  const auto num_reused = static_cast<int64_t>(session->num_stored());
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

Result<ContextId> DB::Import(const ModelSpec& spec, std::span<const TokenId> tokens,
                             std::span<const LayerKv> layers, const StoreOptions& options,
                             std::span<const TensorView> queries) const {
  ATTNDB_RETURN_IF_ERROR(spec.Validate());
  ATTNDB_RETURN_IF_ERROR(CheckLayers(spec, tokens.size(), layers));
  ATTNDB_RETURN_IF_ERROR(CheckQueries(spec, tokens.size(), queries));
  ATTNDB_ASSIGN_OR_RETURN(
      std::unique_ptr<internal::SessionImpl> session,
      database_->OpenSession(tenant_, spec, tokens, std::numeric_limits<uint64_t>::max(), {}));
  const uint64_t num_new = tokens.size() - session->num_tokens();
  ATTNDB_RETURN_IF_ERROR(
      database_->CheckStore(tenant_, options, num_new * storage::BytesPerToken(*session->shape())));
  bool has_checkpoint = false;
  Result<ContextId> id = ImportPieces(database_.get(), session.get(), tokens, layers, options,
                                      queries, &has_checkpoint);
  if (!id.ok() && has_checkpoint) {
    // Nothing has changed: the caller has all of it still. If this fails too, an unnamed context
    // is left, which a later Import of these tokens continues.
    const auto checkpoint = static_cast<int64_t>(session->context());
    (void)database_->Drop(tenant_, "#" + std::to_string(checkpoint));
  }
  return id;
}

Result<ContextId> DB::Store(Session& session, std::span<const TokenId> tokens,
                            const StoreOptions& options) const {
  if (session.impl_->database() != database_ || session.impl_->tenant() != tenant_) {
    return Status::InvalidArgument("the session belongs to another store or tenant");
  }
  return database_->Store(session.impl_.get(), tokens, options);
}

Result<PrefixExplain> DB::ExplainPrefix(const ModelSpec& spec, std::span<const TokenId> tokens,
                                        const SessionOptions& options) const {
  return database_->ExplainPrefix(tenant_, spec, tokens, options);
}

Result<std::vector<ContextInfo>> DB::List() const { return database_->List(tenant_); }

Result<ContextInfo> DB::Describe(std::string_view context) const {
  return database_->Describe(tenant_, context);
}

Result<std::vector<TokenId>> DB::Tokens(std::string_view context) const {
  return database_->Tokens(tenant_, context);
}

Status DB::Pin(std::string_view context, bool pinned) const {
  return database_->Pin(tenant_, context, pinned);
}

Status DB::SetTtl(std::string_view context, std::optional<std::chrono::seconds> ttl) const {
  return database_->SetTtl(tenant_, context, ttl);
}

Status DB::Drop(std::string_view context) const { return database_->Drop(tenant_, context); }

Status DB::SetQuota(uint64_t bytes) const { return database_->SetQuota(tenant_, bytes); }

Status DB::DeclareEqual(std::string_view fingerprint_a, std::string_view fingerprint_b) const {
  return database_->DeclareEqual(fingerprint_a, fingerprint_b);
}

Result<VerifyReport> DB::Verify(const VerifyOptions& options) const {
  return database_->Verify(tenant_, options);
}

Status DB::Compact() const { return database_->Compact(tenant_); }

Result<DBStats> DB::Stats() const { return database_->Stats(tenant_); }

}  // namespace attndb
