// Checks that there is space to write: in a tenant's quota, and on the disk.
//
// Threads: thread-safe; it keeps no state.
#ifndef ATTNDB_STORE_SPACE_H_
#define ATTNDB_STORE_SPACE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"
#include "store/catalog/catalog.h"
#include "store/settings.h"
#include "store/uses.h"

namespace attndb::store {

class Space {
 public:
  // The contexts and objects to remove to make space for a Store.
  struct Victims {
    std::vector<ContextId> contexts;
    uint64_t freed_bytes = 0;
    bool objects = false;  // Whether all derived objects of the tenant are removed, too.
  };

  // All must outlive it.
  Space(const Settings* settings, Catalog* catalog, const Uses* uses)
      : settings_(settings), catalog_(catalog), uses_(uses) {}

  // Chooses the contexts to remove before `new_bytes` more fit into the quota. `kept`: segments
  // that stay in any case, because the new context shares them. `in_use`: a context that stays, in
  // addition to those that are in use; kNone: there is none.
  // Errors: kResourceExhausted (the removable contexts do not suffice).
  Result<Victims> ChooseVictims(const Tenant& tenant, uint64_t new_bytes,
                                std::span<const SegmentId> kept = {},
                                ContextId in_use = ContextId::kNone) const;
  // Errors: kResourceExhausted (the disk lacks room for `kv_bytes` bytes of K and V, even if all
  //         derived objects are dropped).
  Status CheckDiskForStore(uint64_t kv_bytes) const;
  // `freed_bytes` are in use now, and are freed for the new bytes.
  // Errors: kFailedPrecondition (`new_bytes` more do not fit into the tenant's quota: nothing is
  //         evicted for a derived object).
  Status CheckQuota(TenantId id, uint64_t new_bytes, uint64_t freed_bytes = 0) const;
  // Errors: kFailedPrecondition (`new_bytes` more would leave too little of the disk for Stores).
  Status CheckDisk(uint64_t new_bytes, uint64_t freed_bytes = 0) const;
  // Whether the disk may be too full for a Store of `kv_bytes` bytes of K and V.
  bool IsDiskFull(uint64_t kv_bytes) const;

 private:
  // Returns the contexts to evict, of those that are not in use, by the bytes that their segments
  // free, and the sum of these bytes, which may be less than requested.
  Result<Victims> Evictable(EvictionRequest request, ContextId in_use) const;
  // Bytes of the derived objects of all tenants that a full disk would drop.
  // Cost: O(those objects * log of all).
  Result<uint64_t> DroppableBytes() const;

  const Settings* const settings_;
  Catalog* const catalog_;
  const Uses* const uses_;
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_SPACE_H_
