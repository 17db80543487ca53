// Contexts: finding, describing, keeping and dropping them.

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "store/catalog/catalog.h"
#include "store/catalog/catalog_rows.h"
#include "store/catalog/context_changes.h"
#include "store/catalog/counters.h"
#include "store/catalog/names.h"
#include "store/catalog/sqlite.h"
#include "store/catalog/ttl.h"

namespace attndb::store {
namespace {

// One wording for a context of another tenant and one that never was.
Status NoSuchContext(const std::string& label) { return Status::NotFound("no context " + label); }

uint64_t RetainedBytes(const ChainSegment& item) {
  const SegmentRecord& segment = item.segment;
  if (segment.num_tokens <= item.num_tokens_kept) return 0;
  return segment.kv_bytes / segment.num_tokens * (segment.num_tokens - item.num_tokens_kept);
}

// Contexts with their segments, of which each is read once.
class Describer {
 public:
  explicit Describer(SqliteDatabase* database) : database_(database) {}

  // `chain` is the context's.
  Result<ContextDetail> Describe(ContextRecord context, std::span<const ChainLink> chain) {
    ContextDetail detail;
    detail.context = std::move(context);
    for (const ChainLink& link : chain) {
      ATTNDB_ASSIGN_OR_RETURN(const ChainSegment* const known, Load(link.segment));
      ChainSegment item = *known;
      item.num_tokens_used = link.num_tokens_used;
      const uint64_t file_bytes = item.segment.total_bytes();
      detail.file_bytes += file_bytes;
      if (item.num_contexts <= 1) detail.own_bytes += file_bytes;
      detail.retained_bytes += RetainedBytes(item);
      detail.query_bytes += item.segment.query_bytes;
      detail.chain.push_back(std::move(item));
    }
    return detail;
  }

 private:
  Result<const ChainSegment*> Load(SegmentId id) {
    const auto found = segments_.find(id);
    if (found != segments_.end()) return &found->second;
    ATTNDB_ASSIGN_OR_RETURN(std::optional<SegmentRecord> segment, FindSegment(database_, id));
    if (!segment.has_value()) {
      return Status::Corruption("catalog: segment " + std::to_string(id) +
                                ": missing, but in a chain");
    }
    ATTNDB_ASSIGN_OR_RETURN(const SegmentUses uses, LoadSegmentUses(database_, id));
    ChainSegment item;
    item.segment = *std::move(segment);
    item.num_tokens_kept = uses.num_tokens_kept;
    item.num_contexts = uses.num_contexts;
    return &segments_.emplace(id, std::move(item)).first->second;
  }

  SqliteDatabase* const database_;  // Not owned.
  std::unordered_map<SegmentId, ChainSegment> segments_;
};

}  // namespace

std::string IdLabel(ContextId id) {
  return std::string("#").append(std::to_string(static_cast<int64_t>(id)));
}

std::string ContextRecord::Label() const { return name.empty() ? IdLabel(id) : name; }

Result<ContextRow> Catalog::RequireContext(TenantId tenant, ContextId context) const {
  ATTNDB_ASSIGN_OR_RETURN(std::optional<ContextRow> row,
                          FindContextRow(database_.get(), tenant, context));
  if (!row.has_value()) return NoSuchContext(IdLabel(context));
  row->record.last_access_us = LastAccess(context, row->record.last_access_us);
  return *std::move(row);
}

Result<ContextRecord> Catalog::FindContext(TenantId tenant, std::string_view context) const {
  const std::optional<ContextId> id = ParseContextId(context);
  if (id.has_value()) return GetContext(tenant, *id);
  ATTNDB_RETURN_IF_ERROR(CheckContextName(context));
  MutexLock lock(&mutex_);
  ATTNDB_ASSIGN_OR_RETURN(const Transaction transaction, BeginRead());
  ATTNDB_ASSIGN_OR_RETURN(std::optional<ContextRow> row,
                          FindContextRow(database_.get(), tenant, context));
  if (!row.has_value()) return NoSuchContext(std::string("\"").append(context).append("\""));
  row->record.last_access_us = LastAccess(row->record.id, row->record.last_access_us);
  return std::move(row->record);
}

Result<ContextRecord> Catalog::GetContext(TenantId tenant, ContextId context) const {
  MutexLock lock(&mutex_);
  ATTNDB_ASSIGN_OR_RETURN(const Transaction transaction, BeginRead());
  ATTNDB_ASSIGN_OR_RETURN(ContextRow row, RequireContext(tenant, context));
  return std::move(row.record);
}

Result<std::vector<ContextRecord>> Catalog::List(TenantId tenant) const {
  MutexLock lock(&mutex_);
  ATTNDB_ASSIGN_OR_RETURN(const Transaction transaction, BeginRead());
  ATTNDB_ASSIGN_OR_RETURN(
      std::vector<ContextRow> rows,
      ReadAll<ContextRow>(database_->Select("SELECT " ATTNDB_CONTEXT_COLUMNS
                                            " FROM contexts WHERE tenant = ? ORDER BY id",
                                            tenant),
                          ReadContext));
  std::vector<ContextRecord> contexts;
  contexts.reserve(rows.size());
  for (ContextRow& row : rows) {
    row.record.last_access_us = LastAccess(row.record.id, row.record.last_access_us);
    contexts.push_back(std::move(row.record));
  }
  return contexts;
}

Result<ContextDetail> Catalog::Describe(TenantId tenant, ContextId context) const {
  MutexLock lock(&mutex_);
  ATTNDB_ASSIGN_OR_RETURN(const Transaction transaction, BeginRead());
  ATTNDB_ASSIGN_OR_RETURN(ContextRow row, RequireContext(tenant, context));
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<ChainLink> chain, LoadChain(database_.get(), context));
  return Describer(database_.get()).Describe(std::move(row.record), chain);
}

Result<std::vector<ContextDetail>> Catalog::DescribeAll(
    std::span<const ContextRecord> contexts) const {
  std::vector<ContextDetail> details;
  details.reserve(contexts.size());
  MutexLock lock(&mutex_);
  ATTNDB_ASSIGN_OR_RETURN(const Transaction transaction, BeginRead());
  Describer describer(database_.get());
  for (const ContextRecord& context : contexts) {
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<ChainLink> chain,
                            LoadChain(database_.get(), context.id));
    if (chain.empty()) continue;  // Dropped meanwhile.
    ATTNDB_ASSIGN_OR_RETURN(ContextDetail detail, describer.Describe(context, chain));
    details.push_back(std::move(detail));
  }
  return details;
}

Result<std::vector<ChainLink>> Catalog::Chain(ContextId context) const {
  MutexLock lock(&mutex_);
  ATTNDB_ASSIGN_OR_RETURN(const Transaction transaction, BeginRead());
  ATTNDB_ASSIGN_OR_RETURN(std::vector<ChainLink> chain, LoadChain(database_.get(), context));
  if (chain.empty()) return NoSuchContext(IdLabel(context));
  return chain;
}

Status Catalog::Pin(TenantId tenant, ContextId context, bool pinned) {
  MutexLock lock(&mutex_);
  ATTNDB_ASSIGN_OR_RETURN(Transaction transaction, BeginWrite());
  ATTNDB_RETURN_IF_ERROR(RequireContext(tenant, context).status());
  ATTNDB_RETURN_IF_ERROR(
      database_->Run("UPDATE contexts SET pinned = ? WHERE id = ?", pinned, context));
  return Commit(&transaction);
}

Status Catalog::SetTtl(TenantId tenant, ContextId context,
                       std::optional<std::chrono::seconds> ttl) {
  ATTNDB_RETURN_IF_ERROR(CheckTtl(ttl));
  MutexLock lock(&mutex_);
  ATTNDB_ASSIGN_OR_RETURN(Transaction transaction, BeginWrite());
  ATTNDB_RETURN_IF_ERROR(RequireContext(tenant, context).status());
  ATTNDB_RETURN_IF_ERROR(
      database_->Run("UPDATE contexts SET ttl_s = ? WHERE id = ?", TtlSeconds(ttl), context));
  return Commit(&transaction);
}

Result<DropOutcome> Catalog::Drop(TenantId tenant, ContextId context) {
  MutexLock lock(&mutex_);
  ATTNDB_ASSIGN_OR_RETURN(Transaction transaction, BeginWrite());
  ATTNDB_ASSIGN_OR_RETURN(ContextRow row, RequireContext(tenant, context));
  std::vector<SegmentId> released;
  ATTNDB_RETURN_IF_ERROR(DropContext(database_.get(), row, &released));
  DropOutcome outcome;
  outcome.dropped.push_back(std::move(row.record));
  ATTNDB_ASSIGN_OR_RETURN(outcome.unreferenced, Unreferenced(database_.get(), std::move(released)));
  ATTNDB_RETURN_IF_ERROR(Commit(&transaction));
  return outcome;
}

Result<uint64_t> Catalog::UsageBytes(TenantId tenant) const {
  ATTNDB_ASSIGN_OR_RETURN(const CatalogStats stats, Stats(tenant));
  return stats.file_bytes;
}

Result<DropOutcome> Catalog::Expire(std::span<const ContextId> in_use) {
  const std::unordered_set<ContextId> used(in_use.begin(), in_use.end());
  MutexLock lock(&mutex_);
  ATTNDB_ASSIGN_OR_RETURN(Transaction transaction, BeginWrite());
  ATTNDB_ASSIGN_OR_RETURN(
      std::vector<ContextRow> rows,
      ReadAll<ContextRow>(
          database_->Select("SELECT " ATTNDB_CONTEXT_COLUMNS
                            " FROM contexts INDEXED BY contexts_by_expiry "
                            "WHERE ttl_s IS NOT NULL AND NOT pinned "
                            "AND last_access_us + ttl_s * 1000000 <= ? ORDER BY id DESC",
                            Now()),
          ReadContext));
  std::erase_if(rows, [&](const ContextRow& row) { return used.contains(row.record.id); });
  DropOutcome outcome;
  if (rows.empty()) return outcome;
  std::vector<SegmentId> released;
  for (ContextRow& row : rows) {
    ATTNDB_RETURN_IF_ERROR(DropContext(database_.get(), row, &released));
    outcome.dropped.push_back(std::move(row.record));
  }
  ATTNDB_ASSIGN_OR_RETURN(outcome.unreferenced, Unreferenced(database_.get(), std::move(released)));
  ATTNDB_RETURN_IF_ERROR(Commit(&transaction));
  return outcome;
}

Result<bool> Catalog::AnyExpired() const {
  const int64_t now = Now();
  MutexLock lock(&mutex_);
  ATTNDB_ASSIGN_OR_RETURN(const Transaction transaction, BeginRead());
  Query query = database_->Select(
      "SELECT id, last_access_us, ttl_s FROM contexts INDEXED BY contexts_by_expiry "
      "WHERE ttl_s IS NOT NULL AND NOT pinned "
      "AND last_access_us + ttl_s * 1000000 <= ?",
      now);
  while (true) {
    ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
    if (!found) return false;
    const int64_t last_access = LastAccess(static_cast<ContextId>(query.Int(0)), query.Int(1));
    if (IsExpired(/*pinned=*/false, query.OptionalInt(2), last_access, now)) return true;
  }
}

Result<CatalogStats> Catalog::Stats(TenantId tenant) const {
  MutexLock lock(&mutex_);
  ATTNDB_ASSIGN_OR_RETURN(const Transaction transaction, BeginRead());
  return LoadTenantUses(database_.get(), tenant);
}

}  // namespace attndb::store
