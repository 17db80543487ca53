#include "store/catalog/catalog_companions.h"

#include <algorithm>

#include "store/catalog/catalog_rows.h"
#include "store/catalog/context_changes.h"
#include "store/catalog/lacking_companions.h"
#include "store/catalog/sqlite.h"

namespace attndb::store {
namespace {

storage::ObjectName NameOf(SegmentId segment, std::string kind, uint64_t generation) {
  return {static_cast<uint64_t>(segment), std::move(kind), generation};
}

// Columns: segment, kind, generation.
Result<storage::ObjectName> ReadName(const Query& row) {
  const std::string kind(row.Text(1));
  if (row.Int(2) < 0 || !storage::IsKindName(kind) || kind == storage::kSegmentKind) {
    return Status::Corruption("catalog: companion of segment " + std::to_string(row.Int(0)) +
                              ": kind \"" + kind + "\", generation " + std::to_string(row.Int(2)));
  }
  return NameOf(row.Int(0), kind, static_cast<uint64_t>(row.Int(2)));
}

// A condition on companions. ?1: a tenant, or 0 for all.
#define ATTNDB_DROPPABLE \
  "NOT required AND (?1 = 0 OR segment IN (SELECT id FROM segments WHERE tenant = ?1))"

Result<std::vector<storage::ObjectName>> ReadDroppable(SqliteDatabase* database, TenantId tenant) {
  return ReadAll<storage::ObjectName>(
      database->Select("SELECT segment, kind, generation FROM companions WHERE " ATTNDB_DROPPABLE,
                       tenant),
      ReadName);
}

}  // namespace

const CompanionRecord* SegmentRecord::FindCompanion(std::string_view kind) const {
  const CompanionRecord* newest = nullptr;
  for (const CompanionRecord& companion : companions) {
    if (companion.kind != kind) continue;
    if (newest == nullptr || companion.generation > newest->generation) newest = &companion;
  }
  return newest;
}

uint64_t SegmentRecord::total_bytes() const {
  uint64_t bytes = file_bytes;
  for (const CompanionRecord& companion : companions) bytes += companion.file_bytes;
  return bytes;
}

Result<std::vector<storage::ObjectName>> CatalogCompanions::KnownObjects() const {
  MutexLock lock(core_->mutex());
  ATTNDB_ASSIGN_OR_RETURN(const Transaction transaction, core_->BeginRead());
  ATTNDB_ASSIGN_OR_RETURN(
      std::vector<storage::ObjectName> names,
      ReadAll<storage::ObjectName>(
          core_->database()->Select("SELECT segment, kind, generation FROM companions"), ReadName));
  ATTNDB_ASSIGN_OR_RETURN(
      const std::vector<int64_t> segments,
      ReadAll<int64_t>(core_->database()->Select("SELECT id FROM segments ORDER BY id"), ReadInt));
  for (const SegmentId id : segments) names.push_back({.segment_id = static_cast<uint64_t>(id)});
  return names;
}

// Generations are taken from the sequence of segments' ids, which is durable.
Result<uint64_t> CatalogCompanions::ReserveGeneration() {
  ATTNDB_ASSIGN_OR_RETURN(const int64_t number, core_->ReserveNumber());
  return static_cast<uint64_t>(number);
}

Result<std::vector<CompanionRecord>> CatalogCompanions::Publish(SegmentId segment,
                                                                const CompanionRecord& companion) {
  MutexLock lock(core_->mutex());
  ATTNDB_ASSIGN_OR_RETURN(Transaction transaction, core_->BeginWrite());
  ATTNDB_ASSIGN_OR_RETURN(const SegmentRecord record,
                          RequireGoodSegment(core_->database(), segment));
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<SegmentId> unreferenced,
                          Unreferenced(core_->database(), {segment}));
  if (!unreferenced.empty()) {
    return Status::FailedPrecondition("no context uses the segment any more");
  }
  const CompanionRecord* const newest = record.FindCompanion(companion.kind);
  if (newest != nullptr && newest->generation >= companion.generation) {
    return Status::AlreadyExists("segment " + std::to_string(segment) + " has " + companion.kind +
                                 " of generation " + std::to_string(newest->generation) +
                                 ", expected less than " + std::to_string(companion.generation));
  }
  std::vector<CompanionRecord> replaced = record.companions;
  std::erase_if(replaced, [&](const CompanionRecord& c) { return c.kind != companion.kind; });
  ATTNDB_RETURN_IF_ERROR(core_->database()->Run(
      "DELETE FROM companions WHERE segment = ? AND kind = ?", segment, companion.kind));
  ATTNDB_RETURN_IF_ERROR(core_->database()->Run(
      "INSERT INTO companions(segment, kind, generation, required, file_bytes, root_hash) "
      "VALUES(?, ?, ?, ?, ?, ?)",
      segment, companion.kind, companion.generation, companion.required, companion.file_bytes,
      std::span<const std::byte>(companion.root_hash)));
  ATTNDB_RETURN_IF_ERROR(core_->database()->Run("DELETE FROM wishes WHERE segment = ? AND kind = ?",
                                                segment, companion.kind));
  ATTNDB_RETURN_IF_ERROR(core_->Commit(&transaction));
  return replaced;
}

Result<bool> CatalogCompanions::Drop(SegmentId segment, std::string_view kind,
                                     uint64_t generation) {
  MutexLock lock(core_->mutex());
  ATTNDB_ASSIGN_OR_RETURN(Transaction transaction, core_->BeginWrite());
  ATTNDB_RETURN_IF_ERROR(core_->database()->Run(
      "DELETE FROM companions WHERE segment = ? AND kind = ? AND generation = ?", segment, kind,
      generation));
  const bool found = core_->database()->num_changes() > 0;
  if (found) ATTNDB_RETURN_IF_ERROR(core_->Commit(&transaction));
  return found;
}

Status CatalogCompanions::DropKind(std::string_view kind) {
  MutexLock lock(core_->mutex());
  ATTNDB_ASSIGN_OR_RETURN(Transaction transaction, core_->BeginWrite());
  ATTNDB_RETURN_IF_ERROR(core_->database()->Run("DELETE FROM companions WHERE kind = ?", kind));
  int64_t num_changes = core_->database()->num_changes();
  ATTNDB_RETURN_IF_ERROR(core_->database()->Run("DELETE FROM wishes WHERE kind = ?", kind));
  num_changes += core_->database()->num_changes();
  return num_changes > 0 ? core_->Commit(&transaction) : Status::Ok();
}

Result<std::vector<storage::ObjectName>> CatalogCompanions::Droppable(TenantId tenant) const {
  MutexLock lock(core_->mutex());
  ATTNDB_ASSIGN_OR_RETURN(const Transaction transaction, core_->BeginRead());
  return ReadDroppable(core_->database(), tenant);
}

Result<std::vector<storage::ObjectName>> CatalogCompanions::DropAll(TenantId tenant) {
  MutexLock lock(core_->mutex());
  ATTNDB_ASSIGN_OR_RETURN(Transaction transaction, core_->BeginWrite());
  ATTNDB_ASSIGN_OR_RETURN(std::vector<storage::ObjectName> names,
                          ReadDroppable(core_->database(), tenant));
  if (names.empty()) return names;
  ATTNDB_RETURN_IF_ERROR(
      core_->database()->Run("DELETE FROM companions WHERE " ATTNDB_DROPPABLE, tenant));
  ATTNDB_RETURN_IF_ERROR(core_->Commit(&transaction));
  return names;
}

Result<std::vector<SegmentId>> CatalogCompanions::SegmentsWithout(
    TenantId tenant, const MissingCompanions& missing) const {
  MutexLock lock(core_->mutex());
  if (!core_->options().read_only) ATTNDB_RETURN_IF_ERROR(WatchFor(core_->database(), missing));
  ATTNDB_ASSIGN_OR_RETURN(const Transaction transaction, core_->BeginRead());
  return core_->options().read_only ? FindSegmentsWithout(core_->database(), tenant, missing)
                                    : WatchedSegmentsWithout(core_->database(), tenant, missing);
}

}  // namespace attndb::store
