// Wishes: companions that segments are to have.

#include "store/catalog/catalog_companions.h"
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

Status CatalogCompanions::AddWish(SegmentId segment, std::string_view kind) {
  MutexLock lock(core_->mutex());
  ATTNDB_ASSIGN_OR_RETURN(Transaction transaction, core_->BeginWrite());
  ATTNDB_RETURN_IF_ERROR(core_->database()->Run(
      "INSERT OR IGNORE INTO wishes(segment, kind) SELECT id, ?2 FROM segments s "
      "WHERE id = ?1 AND damage IS NULL "
      "AND NOT EXISTS(SELECT 1 FROM companions WHERE segment = s.id AND kind = ?2)",
      segment, kind));
  return core_->database()->num_changes() > 0 ? core_->Commit(&transaction) : Status::Ok();
}

// The condition under which a wish can be fulfilled.
#define ATTNDB_WISHES                                                           \
  "SELECT w.segment, w.kind FROM wishes w JOIN segments s ON s.id = w.segment " \
  "WHERE s.damage IS NULL AND EXISTS(SELECT 1 FROM chain WHERE segment = s.id) "

Result<std::vector<Wish>> CatalogCompanions::Wishes(TenantId tenant) const {
  if (core_->options().read_only) return std::vector<Wish>();
  MutexLock lock(core_->mutex());
  ATTNDB_ASSIGN_OR_RETURN(const Transaction transaction, core_->BeginRead());
  return ReadAll<Wish>(
      core_->database()->Select(
          ATTNDB_WISHES "AND (s.tenant = ?1 OR ?1 = 0) ORDER BY w.segment, w.kind", tenant),
      ReadWish);
}

Result<std::vector<Wish>> CatalogCompanions::WishesOf(SegmentId segment) const {
  if (core_->options().read_only) return std::vector<Wish>();
  MutexLock lock(core_->mutex());
  ATTNDB_ASSIGN_OR_RETURN(const Transaction transaction, core_->BeginRead());
  return ReadAll<Wish>(
      core_->database()->Select(ATTNDB_WISHES "AND w.segment = ? ORDER BY w.kind", segment),
      ReadWish);
}

}  // namespace attndb::store
