// Wishes: companions that segments are to have.

#include "store/catalog/catalog.h"
#include "store/catalog/catalog_rows.h"
#include "store/catalog/sqlite.h"

namespace attndb::store {
namespace {

// Columns: segment, kind.
Result<Wish> ReadWish(const Query& row) {
  Wish wish = {row.Int(0), std::string(row.Text(1))};
  if (storage::IsKindName(wish.kind) && wish.kind != storage::kSegmentKind) return wish;
  return Status::Corruption("catalog: wish of segment " + std::to_string(wish.segment) +
                            ": kind \"" + wish.kind + "\"");
}

}  // namespace

Status Catalog::AddWish(SegmentId segment, std::string_view kind) {
  MutexLock lock(&mutex_);
  ATTNDB_ASSIGN_OR_RETURN(Transaction transaction, BeginWrite());
  ATTNDB_RETURN_IF_ERROR(
      database_->Run("INSERT OR IGNORE INTO wishes(segment, kind) SELECT id, ?2 FROM segments s "
                     "WHERE id = ?1 AND damage IS NULL "
                     "AND NOT EXISTS(SELECT 1 FROM companions WHERE segment = s.id AND kind = ?2)",
                     segment, kind));
  return database_->num_changes() > 0 ? Commit(&transaction) : Status::Ok();
}

Result<std::vector<Wish>> Catalog::Wishes(TenantId tenant) const {
  return SelectWishes(tenant, /*segment=*/0);
}

Result<std::vector<Wish>> Catalog::WishesOf(SegmentId segment) const {
  return SelectWishes(TenantId::kNone, segment);
}

// Reads the wishes of one tenant, or of all with kNone, for one segment, or for all with 0.
Result<std::vector<Wish>> Catalog::SelectWishes(TenantId tenant, SegmentId segment) const {
  if (options_.read_only) return std::vector<Wish>();
  MutexLock lock(&mutex_);
  ATTNDB_ASSIGN_OR_RETURN(const Transaction transaction, BeginRead());
  return ReadAll<Wish>(
      database_->Select(
          "SELECT w.segment, w.kind FROM wishes w JOIN segments s ON s.id = w.segment "
          "WHERE (s.tenant = ?1 OR ?1 = 0) AND (s.id = ?2 OR ?2 = 0) "
          "AND s.damage IS NULL AND EXISTS(SELECT 1 FROM chain WHERE segment = s.id) "
          "ORDER BY w.segment, w.kind",
          tenant, segment),
      ReadWish);
}

}  // namespace attndb::store
