// Contexts: finding, describing, keeping and dropping them.

#include <algorithm>
#include <unordered_set>

#include "store/catalog/catalog.h"
#include "store/catalog/catalog_rows.h"
#include "store/catalog/context_changes.h"
#include "store/catalog/names.h"
#include "store/catalog/sqlite.h"
#include "store/catalog/ttl.h"

namespace attndb::store {
namespace {

// One wording for a context of another tenant and one that never was.
Status NoSuchContext(const std::string& label) { return Status::NotFound("no context " + label); }

Result<ChainSegment> LoadChainSegment(SqliteDatabase* database, const ChainLink& link) {
  ATTNDB_ASSIGN_OR_RETURN(std::optional<SegmentRecord> segment,
                          FindSegment(database, link.segment));
  if (!segment.has_value()) {
    return Status::Corruption("catalog: segment " + std::to_string(link.segment) +
                              ": missing, but in a chain");
  }
  ChainSegment item;
  item.segment = *std::move(segment);
  item.num_tokens_used = link.num_tokens_used;
  Query query = database->Select(
      "SELECT max(num_tokens_used), count(DISTINCT context) FROM chain WHERE segment = ?",
      link.segment);
  ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
  if (found) {
    item.num_tokens_kept = static_cast<uint64_t>(query.Int(0));
    item.num_contexts = static_cast<uint32_t>(query.Int(1));
  }
  return item;
}

uint64_t RetainedBytes(const ChainSegment& item) {
  const SegmentRecord& segment = item.segment;
  if (segment.num_tokens <= item.num_tokens_kept) return 0;
  return segment.kv_bytes / segment.num_tokens * (segment.num_tokens - item.num_tokens_kept);
}

Result<uint64_t> OwnBytes(SqliteDatabase* database, ContextId context) {
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<ChainLink> chain, LoadChain(database, context));
  uint64_t bytes = 0;
  for (const ChainLink& link : chain) {
    ATTNDB_ASSIGN_OR_RETURN(const ChainSegment item, LoadChainSegment(database, link));
    if (item.num_contexts <= 1) bytes += item.segment.total_bytes();
  }
  return bytes;
}

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
  ContextDetail detail;
  detail.context = std::move(row.record);
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<ChainLink> chain, LoadChain(database_.get(), context));
  for (const ChainLink& link : chain) {
    ATTNDB_ASSIGN_OR_RETURN(ChainSegment item, LoadChainSegment(database_.get(), link));
    const uint64_t file_bytes = item.segment.total_bytes();
    detail.file_bytes += file_bytes;
    if (item.num_contexts <= 1) detail.own_bytes += file_bytes;
    detail.retained_bytes += RetainedBytes(item);
    detail.query_bytes += item.segment.query_bytes;
    detail.chain.push_back(std::move(item));
  }
  return detail;
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

Result<std::vector<EvictionCandidate>> Catalog::EvictionCandidates(
    TenantId tenant, std::span<const ContextId> in_use, size_t max_candidates) const {
  ATTNDB_ASSIGN_OR_RETURN(std::vector<ContextRecord> contexts, List(tenant));
  const std::unordered_set<ContextId> used(in_use.begin(), in_use.end());
  std::erase_if(contexts, [&](const ContextRecord& c) { return c.pinned || used.contains(c.id); });
  std::ranges::stable_sort(contexts, std::less(), &ContextRecord::last_access_us);
  if (contexts.size() > max_candidates) contexts.resize(max_candidates);
  std::vector<EvictionCandidate> candidates;
  MutexLock lock(&mutex_);
  ATTNDB_ASSIGN_OR_RETURN(const Transaction transaction, BeginRead());
  for (ContextRecord& context : contexts) {
    ATTNDB_ASSIGN_OR_RETURN(const uint64_t own_bytes, OwnBytes(database_.get(), context.id));
    candidates.push_back({context.id, std::move(context.name), context.last_access_us, own_bytes});
  }
  return candidates;
}

Result<DropOutcome> Catalog::Expire(std::span<const ContextId> in_use) {
  const std::unordered_set<ContextId> used(in_use.begin(), in_use.end());
  MutexLock lock(&mutex_);
  ATTNDB_ASSIGN_OR_RETURN(Transaction transaction, BeginWrite());
  ATTNDB_ASSIGN_OR_RETURN(
      std::vector<ContextRow> rows,
      ReadAll<ContextRow>(
          database_->Select("SELECT " ATTNDB_CONTEXT_COLUMNS
                            " FROM contexts WHERE ttl_s IS NOT NULL AND NOT pinned "
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
      "SELECT id, last_access_us, ttl_s FROM contexts WHERE ttl_s IS NOT NULL AND NOT pinned "
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
  CatalogStats stats;
  {
    Query query = database_->Select(
        "SELECT count(*), total(num_tokens), total(file_bytes), count(damage), "
        "(SELECT count(*) FROM contexts WHERE tenant = ?1) FROM segments WHERE tenant = ?1",
        tenant);
    ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
    if (!found) return stats;
    stats.num_segments = static_cast<uint64_t>(query.Int(0));
    stats.num_tokens = static_cast<uint64_t>(query.Int(1));
    stats.file_bytes = static_cast<uint64_t>(query.Int(2));
    stats.num_damaged_segments = static_cast<uint64_t>(query.Int(3));
    stats.num_contexts = static_cast<uint64_t>(query.Int(4));
  }
  Query query = database_->Select(
      "SELECT count(*), total(c.file_bytes) FROM companions c JOIN segments s ON s.id = c.segment "
      "WHERE s.tenant = ?",
      tenant);
  ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
  if (!found) return stats;
  stats.num_companions = static_cast<uint64_t>(query.Int(0));
  stats.companion_bytes = static_cast<uint64_t>(query.Int(1));
  stats.file_bytes += stats.companion_bytes;
  return stats;
}

}  // namespace attndb::store
