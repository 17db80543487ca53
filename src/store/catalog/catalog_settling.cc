// CatalogSegments: the work list of Compact.

#include <algorithm>

#include "store/catalog/catalog_rows.h"
#include "store/catalog/catalog_segments.h"
#include "store/catalog/sqlite.h"

namespace attndb::store {
namespace {

// The context without damage that uses most of the segment, if there is one.
constexpr const char* kLargestUser =
    "SELECT c.context FROM chain c JOIN contexts x ON x.id = c.context "
    "WHERE c.segment = ? AND NOT x.damaged ORDER BY c.num_tokens_used DESC LIMIT 1";
// The same among contexts of the segment's model: a chain is merged within its context's model.
constexpr const char* kLargestUserOfItsModel =
    "SELECT c.context FROM chain c JOIN contexts x ON x.id = c.context "
    "WHERE c.segment = ?1 AND NOT x.damaged "
    "AND x.model = (SELECT model FROM segments WHERE id = ?1) "
    "ORDER BY c.num_tokens_used DESC LIMIT 1";

}  // namespace

Status CatalogSegments::UnsettleForLength(TenantId tenant, uint64_t segment_tokens) {
  MutexLock lock(core_->mutex());
  {
    ATTNDB_ASSIGN_OR_RETURN(const Transaction transaction, core_->BeginRead());
    Query query = core_->database()->Select(
        "SELECT 1 FROM tenant_uses WHERE tenant = ? AND segment_tokens <> ?", tenant,
        segment_tokens);
    ATTNDB_ASSIGN_OR_RETURN(const bool differs, query.Step());
    if (!differs) return {};
  }
  ATTNDB_ASSIGN_OR_RETURN(Transaction transaction, core_->BeginWrite());
  ATTNDB_RETURN_IF_ERROR(
      core_->database()->Run("UPDATE segment_uses SET num_settled = -1 WHERE segment IN "
                             "(SELECT id FROM segments WHERE tenant = ?)",
                             tenant));
  ATTNDB_RETURN_IF_ERROR(core_->database()->Run(
      "UPDATE tenant_uses SET segment_tokens = ? WHERE tenant = ?", segment_tokens, tenant));
  return core_->Commit(&transaction);
}

Result<std::vector<UnsettledSegment>> CatalogSegments::Unsettled(TenantId tenant) const {
  MutexLock lock(core_->mutex());
  ATTNDB_ASSIGN_OR_RETURN(const Transaction transaction, core_->BeginRead());
  return ReadAll<UnsettledSegment>(
      core_->database()->Select(
          "SELECT segment, num_changes FROM segment_uses INDEXED BY segment_uses_unsettled "
          "WHERE tenant = ? AND num_changes <> num_settled ORDER BY segment",
          tenant),
      [](const Query& row) -> Result<UnsettledSegment> {
        return UnsettledSegment{row.Int(0), row.Int(1)};
      });
}

Result<std::vector<ContextId>> CatalogSegments::ContextsToCompact(
    std::span<const UnsettledSegment> segments) const {
  MutexLock lock(core_->mutex());
  ATTNDB_ASSIGN_OR_RETURN(const Transaction transaction, core_->BeginRead());
  std::vector<ContextId> contexts;
  for (const UnsettledSegment& unsettled : segments) {
    for (const char* const sql : {kLargestUser, kLargestUserOfItsModel}) {
      Query query = core_->database()->Select(sql, unsettled.segment);
      ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
      if (found) contexts.push_back(static_cast<ContextId>(query.Int(0)));
    }
  }
  std::ranges::sort(contexts);
  contexts.erase(std::unique(contexts.begin(), contexts.end()), contexts.end());
  return contexts;
}

Status CatalogSegments::Settle(std::span<const UnsettledSegment> segments) {
  if (segments.empty()) return {};
  MutexLock lock(core_->mutex());
  ATTNDB_ASSIGN_OR_RETURN(Transaction transaction, core_->BeginWrite());
  for (const UnsettledSegment& segment : segments) {
    ATTNDB_RETURN_IF_ERROR(
        core_->database()->Run("UPDATE segment_uses SET num_settled = ? WHERE segment = ?",
                               segment.num_changes, segment.segment));
  }
  return core_->Commit(&transaction);
}

}  // namespace attndb::store
