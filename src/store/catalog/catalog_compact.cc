// What Compact is to look at: segments whose chains have changed since it found nothing to do.

#include <algorithm>

#include "store/catalog/catalog.h"
#include "store/catalog/catalog_rows.h"
#include "store/catalog/sqlite.h"

namespace attndb::store {
namespace {

// The context without damage that uses most of the segment, if there is one.
constexpr const char* kLargestUser =
    "SELECT c.context FROM chain c JOIN contexts x ON x.id = c.context "
    "WHERE c.segment = ? AND NOT x.damaged ORDER BY c.num_tokens_used DESC LIMIT 1";
// The same of those of the segment's model: a chain is merged within its context's model.
constexpr const char* kLargestUserOfItsModel =
    "SELECT c.context FROM chain c JOIN contexts x ON x.id = c.context "
    "WHERE c.segment = ?1 AND NOT x.damaged "
    "AND x.model = (SELECT model FROM segments WHERE id = ?1) "
    "ORDER BY c.num_tokens_used DESC LIMIT 1";

}  // namespace

Status Catalog::UnsettleForLength(TenantId tenant, uint64_t segment_tokens) {
  MutexLock lock(&mutex_);
  {
    ATTNDB_ASSIGN_OR_RETURN(const Transaction transaction, BeginRead());
    Query query =
        database_->Select("SELECT 1 FROM tenant_uses WHERE tenant = ? AND segment_tokens <> ?",
                          tenant, segment_tokens);
    ATTNDB_ASSIGN_OR_RETURN(const bool differs, query.Step());
    if (!differs) return {};
  }
  ATTNDB_ASSIGN_OR_RETURN(Transaction transaction, BeginWrite());
  ATTNDB_RETURN_IF_ERROR(
      database_->Run("UPDATE segment_uses SET num_settled = -1 WHERE segment IN "
                     "(SELECT id FROM segments WHERE tenant = ?)",
                     tenant));
  ATTNDB_RETURN_IF_ERROR(database_->Run(
      "UPDATE tenant_uses SET segment_tokens = ? WHERE tenant = ?", segment_tokens, tenant));
  return Commit(&transaction);
}

Result<std::vector<UnsettledSegment>> Catalog::UnsettledSegments(TenantId tenant) const {
  MutexLock lock(&mutex_);
  ATTNDB_ASSIGN_OR_RETURN(const Transaction transaction, BeginRead());
  return ReadAll<UnsettledSegment>(
      database_->Select(
          "SELECT segment, num_changes FROM segment_uses INDEXED BY segment_uses_unsettled "
          "WHERE tenant = ? AND num_changes <> num_settled ORDER BY segment",
          tenant),
      [](const Query& row) -> Result<UnsettledSegment> {
        return UnsettledSegment{row.Int(0), row.Int(1)};
      });
}

Result<std::vector<ContextId>> Catalog::ContextsToCompact(
    std::span<const UnsettledSegment> segments) const {
  MutexLock lock(&mutex_);
  ATTNDB_ASSIGN_OR_RETURN(const Transaction transaction, BeginRead());
  std::vector<ContextId> contexts;
  for (const UnsettledSegment& unsettled : segments) {
    for (const char* const sql : {kLargestUser, kLargestUserOfItsModel}) {
      Query query = database_->Select(sql, unsettled.segment);
      ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
      if (found) contexts.push_back(static_cast<ContextId>(query.Int(0)));
    }
  }
  std::ranges::sort(contexts);
  contexts.erase(std::unique(contexts.begin(), contexts.end()), contexts.end());
  return contexts;
}

Status Catalog::Settle(std::span<const UnsettledSegment> segments) {
  if (segments.empty()) return {};
  MutexLock lock(&mutex_);
  ATTNDB_ASSIGN_OR_RETURN(Transaction transaction, BeginWrite());
  for (const UnsettledSegment& segment : segments) {
    ATTNDB_RETURN_IF_ERROR(
        database_->Run("UPDATE segment_uses SET num_settled = ? WHERE segment = ?",
                       segment.num_changes, segment.segment));
  }
  return Commit(&transaction);
}

}  // namespace attndb::store
