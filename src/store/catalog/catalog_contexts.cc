#include "store/catalog/catalog_contexts.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <unordered_map>
#include <unordered_set>

#include "attndb/context_name.h"
#include "attndb/units.h"
#include "store/catalog/catalog_rows.h"
#include "store/catalog/context_changes.h"
#include "store/catalog/context_notes.h"
#include "store/catalog/counters.h"
#include "store/catalog/names.h"
#include "store/catalog/sqlite.h"
#include "store/catalog/text_layouts.h"
#include "store/catalog/ttl.h"

namespace attndb::store {
namespace {

// One wording for a context of another tenant and one that never was.
Status NoSuchContext(const std::string& label) { return Status::NotFound("no context " + label); }

// For one that is known by its id, which tells the tenant nothing.
Status ContextIsGone() { return Status::NotFound("the context is not in the store any more"); }

uint64_t RetainedBytes(const ChainSegment& item) {
  const SegmentRecord& segment = item.segment;
  if (segment.num_tokens <= item.num_tokens_kept) return 0;
  return segment.kv_bytes / segment.num_tokens * (segment.num_tokens - item.num_tokens_kept);
}

#define ATTNDB_SELECT_BY_EXPIRY                   \
  "SELECT " ATTNDB_CONTEXT_COLUMNS                \
  " FROM contexts INDEXED BY contexts_by_expiry " \
  "WHERE ttl_s IS NOT NULL AND NOT pinned AND last_access_us + ttl_s * 1000000 "

// The rows of expired contexts: by their dates, plus those whose dates lie ahead of a clock that is
// `behind`. Null: no date lies ahead.
std::vector<Query> ExpiredRows(SqliteDatabase* database, int64_t now_us, const BehindTime* behind) {
  std::vector<Query> queries;
  queries.push_back(database->Select(ATTNDB_SELECT_BY_EXPIRY "<= ?", now_us));
  if (behind == nullptr) return queries;
  queries.push_back(database->Select(ATTNDB_SELECT_BY_EXPIRY
                                     "> ?1 AND last_access_us > ?2 AND ?3 + ttl_s * 1000000 <= ?1",
                                     now_us, behind->newest_us, behind->first_us - 1));
  return queries;
}

#undef ATTNDB_SELECT_BY_EXPIRY

// Contexts with their segments, of which each is read once.
class Describer {
 public:
  explicit Describer(SqliteDatabase* database) : database_(database) {}

  // `chain` is the context's.
  Result<ContextDetail> Describe(ContextRecord context, std::span<const ChainLink> chain) {
    ContextDetail detail;
    ATTNDB_ASSIGN_OR_RETURN(detail.title, TitleOfContext(database_, context.id));
    ATTNDB_ASSIGN_OR_RETURN(detail.continues, ContinuedBy(database_, context.id));
    ATTNDB_ASSIGN_OR_RETURN(detail.file_bytes, NoteBytesOfContext(database_, context.id));
    detail.own_bytes = detail.file_bytes;
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
    if (uses.num_tokens_kept > segment->num_tokens) {
      return Status::Corruption("catalog: a context uses " + std::to_string(uses.num_tokens_kept) +
                                " tokens of segment " + std::to_string(id) + ", which has " +
                                std::to_string(segment->num_tokens));
    }
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

std::string NumberLabel(ContextNumber number) { return IdName(PublicId(number)); }

std::string ContextRecord::Label() const { return name.empty() ? NumberLabel(number) : name; }

Result<ContextRow> CatalogContexts::Require(TenantId tenant, ContextId context) const {
  ATTNDB_ASSIGN_OR_RETURN(std::optional<ContextRow> row,
                          FindContextRow(core_->database(), tenant, context));
  if (!row.has_value()) return ContextIsGone();
  row->record.last_access_us = core_->LastAccess(context, row->record.last_access_us);
  return *std::move(row);
}

Result<ContextRecord> CatalogContexts::Find(TenantId tenant, std::string_view context) const {
  const std::optional<ContextNumber> number = ParseContextNumber(context);
  if (!number) ATTNDB_RETURN_IF_ERROR(CheckContextName(context));
  MutexLock lock(core_->mutex());
  ATTNDB_ASSIGN_OR_RETURN(const Transaction transaction, core_->BeginRead());
  ATTNDB_ASSIGN_OR_RETURN(std::optional<ContextRow> row,
                          number ? FindContextRow(core_->database(), tenant, *number)
                                 : FindContextRow(core_->database(), tenant, context));
  if (!row.has_value()) {
    return NoSuchContext(number ? NumberLabel(*number)
                                : std::string("\"").append(context).append("\""));
  }
  row->record.last_access_us = core_->LastAccess(row->record.id, row->record.last_access_us);
  return std::move(row->record);
}

Result<ContextRecord> CatalogContexts::Find(std::string_view tenant,
                                            std::string_view context) const {
  ATTNDB_ASSIGN_OR_RETURN(const Tenant owner, owners_->FindTenant(tenant));
  return Find(owner.id, context);
}

Result<ContextRecord> CatalogContexts::Get(TenantId tenant, ContextId context) const {
  MutexLock lock(core_->mutex());
  ATTNDB_ASSIGN_OR_RETURN(const Transaction transaction, core_->BeginRead());
  ATTNDB_ASSIGN_OR_RETURN(ContextRow row, Require(tenant, context));
  return std::move(row.record);
}

Result<std::vector<ContextRecord>> CatalogContexts::List(TenantId tenant) const {
  MutexLock lock(core_->mutex());
  ATTNDB_ASSIGN_OR_RETURN(const Transaction transaction, core_->BeginRead());
  ATTNDB_ASSIGN_OR_RETURN(
      std::vector<ContextRow> rows,
      ReadAll<ContextRow>(core_->database()->Select("SELECT " ATTNDB_CONTEXT_COLUMNS
                                                    " FROM contexts WHERE tenant = ? ORDER BY id",
                                                    tenant),
                          ReadContext));
  std::vector<ContextRecord> contexts;
  contexts.reserve(rows.size());
  for (ContextRow& row : rows) {
    row.record.last_access_us = core_->LastAccess(row.record.id, row.record.last_access_us);
    contexts.push_back(std::move(row.record));
  }
  return contexts;
}

Result<ContextDetail> CatalogContexts::Describe(TenantId tenant, ContextId context) const {
  MutexLock lock(core_->mutex());
  ATTNDB_ASSIGN_OR_RETURN(const Transaction transaction, core_->BeginRead());
  ATTNDB_ASSIGN_OR_RETURN(ContextRow row, Require(tenant, context));
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<ChainLink> chain,
                          LoadChain(core_->database(), context));
  return Describer(core_->database()).Describe(std::move(row.record), chain);
}

Result<std::vector<ContextDetail>> CatalogContexts::DescribeAll(
    std::span<const ContextRecord> contexts) const {
  std::vector<ContextDetail> details;
  details.reserve(contexts.size());
  MutexLock lock(core_->mutex());
  ATTNDB_ASSIGN_OR_RETURN(const Transaction transaction, core_->BeginRead());
  Describer describer(core_->database());
  for (const ContextRecord& context : contexts) {
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<ChainLink> chain,
                            LoadChain(core_->database(), context.id));
    if (chain.empty()) continue;  // Dropped meanwhile.
    ATTNDB_ASSIGN_OR_RETURN(ContextDetail detail, describer.Describe(context, chain));
    details.push_back(std::move(detail));
  }
  return details;
}

Result<std::vector<ChainLink>> CatalogContexts::Chain(ContextId context) const {
  MutexLock lock(core_->mutex());
  ATTNDB_ASSIGN_OR_RETURN(const Transaction transaction, core_->BeginRead());
  ATTNDB_ASSIGN_OR_RETURN(std::vector<ChainLink> chain, LoadChain(core_->database(), context));
  if (chain.empty()) return ContextIsGone();
  return chain;
}

Result<History> CatalogContexts::HistoryOf(ContextId context) const {
  MutexLock lock(core_->mutex());
  ATTNDB_ASSIGN_OR_RETURN(const Transaction transaction, core_->BeginRead());
  Query query =
      core_->database()->Select("SELECT leaf, num_tokens FROM contexts WHERE id = ?", context);
  ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
  if (!found) return ContextIsGone();
  return PrefixIndex(core_->database())
      .HistoryOf(static_cast<NodeId>(query.Int(0)), static_cast<uint64_t>(query.Int(1)));
}

Result<TextLayout> CatalogContexts::TextOf(const ContextRecord& context) const {
  MutexLock lock(core_->mutex());
  ATTNDB_ASSIGN_OR_RETURN(const Transaction transaction, core_->BeginRead());
  return LayoutOfText(core_->database(), context.id, context.num_tokens);
}

Result<std::string> CatalogContexts::NoteOf(const ContextRecord& context) const {
  MutexLock lock(core_->mutex());
  ATTNDB_ASSIGN_OR_RETURN(const Transaction transaction, core_->BeginRead());
  return NoteOfContext(core_->database(), context.id);
}

Result<std::vector<TokenId>> CatalogContexts::Tokens(ContextId context) const {
  ATTNDB_ASSIGN_OR_RETURN(History history, HistoryOf(context));
  return std::move(history.tokens);
}

Result<PrefixMatch> CatalogContexts::CommonPrefix(ContextId context,
                                                  std::span<const TokenId> tokens) const {
  ATTNDB_ASSIGN_OR_RETURN(History stored, HistoryOf(context));
  const auto end = std::ranges::mismatch(tokens, stored.tokens).in1;
  const auto num_tokens = static_cast<uint64_t>(end - tokens.begin());
  return PrefixMatch{context, num_tokens, CutsWithin(std::move(stored.cuts), num_tokens)};
}

void CatalogContexts::Touch(ContextId context) { core_->Touch(context); }

Status CatalogContexts::Pin(TenantId tenant, ContextId context, bool pinned) {
  MutexLock lock(core_->mutex());
  ATTNDB_ASSIGN_OR_RETURN(Transaction transaction, core_->BeginWrite());
  ATTNDB_RETURN_IF_ERROR(Require(tenant, context).status());
  // A date that lies ahead of the clock would count again, once it is not pinned.
  ATTNDB_RETURN_IF_ERROR(core_->database()->Run(
      "UPDATE contexts SET pinned = ?, last_access_us = min(last_access_us, ?) WHERE id = ?",
      pinned, core_->GiveDate(), context));
  return core_->Commit(&transaction);
}

Status CatalogContexts::SetTtl(TenantId tenant, ContextId context,
                               std::optional<std::chrono::seconds> ttl) {
  ATTNDB_RETURN_IF_ERROR(CheckTtl(ttl));
  MutexLock lock(core_->mutex());
  ATTNDB_ASSIGN_OR_RETURN(Transaction transaction, core_->BeginWrite());
  ATTNDB_RETURN_IF_ERROR(Require(tenant, context).status());
  ATTNDB_RETURN_IF_ERROR(core_->database()->Run("UPDATE contexts SET ttl_s = ? WHERE id = ?",
                                                TtlSeconds(ttl), context));
  return core_->Commit(&transaction);
}

Status CatalogContexts::Rename(TenantId tenant, ContextId context, std::string_view name) {
  ATTNDB_RETURN_IF_ERROR(CheckContextName(name));
  MutexLock lock(core_->mutex());
  ATTNDB_ASSIGN_OR_RETURN(Transaction transaction, core_->BeginWrite());
  ATTNDB_ASSIGN_OR_RETURN(const ContextRow row, Require(tenant, context));
  if (row.record.name == name) return {};
  ATTNDB_ASSIGN_OR_RETURN(const std::optional<ContextRow> holder,
                          FindContextRow(core_->database(), tenant, name));
  if (holder.has_value()) {
    return Status::AlreadyExists("context \"" + std::string(name) + "\" exists (" +
                                 Counted(holder->record.num_tokens, "token") + ")");
  }
  ATTNDB_RETURN_IF_ERROR(
      core_->database()->Run("UPDATE contexts SET name = ? WHERE id = ?", name, context));
  return core_->Commit(&transaction);
}

Result<DropOutcome> CatalogContexts::Drop(TenantId tenant, ContextId context) {
  MutexLock lock(core_->mutex());
  ATTNDB_ASSIGN_OR_RETURN(Transaction transaction, core_->BeginWrite());
  ATTNDB_ASSIGN_OR_RETURN(ContextRow row, Require(tenant, context));
  std::vector<SegmentId> released;
  ATTNDB_RETURN_IF_ERROR(DropContext(core_->database(), row, &released));
  DropOutcome outcome;
  outcome.dropped.push_back(std::move(row.record));
  ATTNDB_ASSIGN_OR_RETURN(outcome.unreferenced,
                          Unreferenced(core_->database(), std::move(released)));
  ATTNDB_RETURN_IF_ERROR(core_->Commit(&transaction));
  return outcome;
}

Result<DropOutcome> CatalogContexts::Expire(std::span<const ContextId> in_use) {
  const std::unordered_set<ContextId> used(in_use.begin(), in_use.end());
  MutexLock lock(core_->mutex());
  const bool must_lift = core_->SeeUses().must_lift();
  ATTNDB_ASSIGN_OR_RETURN(Transaction transaction, core_->BeginWrite());
  std::vector<ContextRow> rows;
  for (Query& query :
       ExpiredRows(core_->database(), core_->ExpiryNow(), core_->SeeUses().FindBehind())) {
    ATTNDB_ASSIGN_OR_RETURN(std::vector<ContextRow> some,
                            ReadAll<ContextRow>(std::move(query), ReadContext));
    std::ranges::move(some, std::back_inserter(rows));
  }
  std::erase_if(rows, [&](const ContextRow& row) { return used.contains(row.record.id); });
  // Newest first (prefix_index.h, invariants).
  std::ranges::sort(rows, std::greater(), [](const ContextRow& row) { return row.record.id; });
  DropOutcome outcome;
  if (rows.empty() && !must_lift) return outcome;
  std::vector<SegmentId> released;
  for (ContextRow& row : rows) {
    ATTNDB_RETURN_IF_ERROR(DropContext(core_->database(), row, &released));
    outcome.dropped.push_back(std::move(row.record));
  }
  ATTNDB_ASSIGN_OR_RETURN(outcome.unreferenced,
                          Unreferenced(core_->database(), std::move(released)));
  ATTNDB_RETURN_IF_ERROR(core_->Commit(&transaction));
  return outcome;
}

Result<bool> CatalogContexts::AnyExpired() const {
  const int64_t now = core_->ExpiryNow();
  MutexLock lock(core_->mutex());
  // Expire first changes the dates, and then finds expired contexts by the new dates.
  if (core_->SeeUses().must_lift() && !core_->options().read_only) return true;
  ATTNDB_ASSIGN_OR_RETURN(const Transaction transaction, core_->BeginRead());
  for (Query& query : ExpiredRows(core_->database(), now, core_->SeeUses().FindBehind())) {
    while (true) {
      ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
      if (!found) break;
      ATTNDB_ASSIGN_OR_RETURN(const ContextRow row, ReadContext(query));
      const ContextRecord& record = row.record;
      const int64_t last_access = core_->LastAccess(record.id, record.last_access_us);
      if (IsExpired(/*pinned=*/false, record.ttl_seconds, last_access, now)) return true;
    }
  }
  return false;
}

}  // namespace attndb::store
