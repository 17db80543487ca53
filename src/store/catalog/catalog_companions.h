// Companions in the catalog: publishes, lists and drops them apart from their segments, and keeps
// wishes for missing ones.
//
// Errors:  those of every call of the catalog (catalog.h); further codes are at the functions.
// Threads: thread-safe.
#ifndef ATTNDB_STORE_CATALOG_CATALOG_COMPANIONS_H_
#define ATTNDB_STORE_CATALOG_CATALOG_COMPANIONS_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "attndb/result.h"
#include "storage/vfs/object_name.h"
#include "store/catalog/catalog_core.h"
#include "store/catalog/catalog_types.h"

namespace attndb::store {

class CatalogCompanions {
 public:
  // `core` must outlive it.
  explicit CatalogCompanions(CatalogCore* core) : core_(core) {}

  // Names of all segments and companions, of all tenants.
  Result<std::vector<storage::ObjectName>> KnownObjects() const;
  // Returns a number for a new companion: greater than all before it, and never handed out twice.
  Result<uint64_t> ReserveGeneration();
  // Commits a companion whose files are durable. Replaces older companions of its kind and returns
  // them: their files may be removed.
  // Errors: kFailedPrecondition (the segment is gone or quarantined, or no context uses it);
  //         kAlreadyExists (a companion of this generation or a newer one exists).
  Result<std::vector<CompanionRecord>> Publish(SegmentId segment, const CompanionRecord& companion);
  // Forgets a companion; its files may be removed then. Returns whether it existed.
  Result<bool> Drop(SegmentId segment, std::string_view kind, uint64_t generation);
  // Forgets all companions of a kind that this version no longer reads; their files become orphans.
  Status DropKind(std::string_view kind);
  // Names of the companions that no segment requires, of one tenant, or of all with kNone.
  Result<std::vector<storage::ObjectName>> Droppable(TenantId tenant) const;
  // Forgets these companions. Returns their names.
  Result<std::vector<storage::ObjectName>> DropAll(TenantId tenant);
  // Segments that lack a companion, oldest first; of one tenant, or of all with kNone. The first
  // call for a kind and length walks over all segments; later calls cost O(those segments). A
  // read-only catalog walks at each call.
  Result<std::vector<SegmentId>> SegmentsWithout(TenantId tenant,
                                                 const MissingCompanions& missing) const;

  // --- Wishes: companions that segments are to have. A wish lasts from the first request until the
  //     companion is published, also for the next process. A merged segment inherits the companions
  //     and wishes of its run as wishes. A read-only catalog lists none, because its store builds
  //     none.

  // Does nothing if the segment is gone, quarantined, or has the companion.
  Status AddWish(SegmentId segment, std::string_view kind);
  // The wishes that can be fulfilled: some context uses their segments. Of one tenant, or of all
  // with kNone; or of one segment. The oldest segment comes first.
  Result<std::vector<Wish>> Wishes(TenantId tenant) const;
  Result<std::vector<Wish>> WishesOf(SegmentId segment) const;

 private:
  CatalogCore* const core_;
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CATALOG_CATALOG_COMPANIONS_H_
