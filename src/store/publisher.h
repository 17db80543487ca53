// Contexts come and go: what follows a stored chain is sealed, and the whole published; a context
// is dropped.
//
// Threads: thread-safe; threads of its own write what callers do not wait for. Segments are written
//          side by side; commits wait for each other.
#ifndef ATTNDB_STORE_PUBLISHER_H_
#define ATTNDB_STORE_PUBLISHER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "attndb/options.h"
#include "attndb/result.h"
#include "attndb/stats.h"
#include "derived/cache.h"
#include "store/catalog/catalog.h"
#include "store/chain.h"
#include "store/commits.h"
#include "store/derived_objects.h"
#include "store/drop_reserve.h"
#include "store/merger.h"
#include "store/segment_registry.h"
#include "store/settings.h"
#include "store/space.h"
#include "store/uses.h"
#include "store/writers.h"

namespace attndb::store {

class Publisher {
 public:
  // All must outlive it.
  struct Parts {
    const Settings* settings;
    Catalog* catalog;
    SegmentRegistry* registry;
    Uses* uses;
    Commits* commits;
    const Space* space;
    DerivedObjects* objects;
    derived::Cache* cache;
    Merger* merger;
    DropReserve* reserve;
  };

  // The destructor waits for what StoreLater was asked for.
  explicit Publisher(const Parts& parts) : parts_(parts) {}

  // Durable when it returns. What it merged is held by who has the request's chain: see
  // Uses::Sweep.
  Result<Stored> Store(const StoreRequest& request) ATTNDB_EXCLUDES(parts_.commits->mutex());
  // The same in a thread of the publisher's, which calls `done` in the end.
  void StoreLater(StoreRequest request, std::function<void(Result<Stored>)> done);
  // The errors of Store that its options, or `new_bytes` of K and V, would cause.
  Status CheckStore(const std::string& tenant, const StoreOptions& options, uint64_t new_bytes);
  // Errors: as DB::Drop.
  Status Drop(const std::string& tenant, std::string_view context)
      ATTNDB_EXCLUDES(parts_.commits->mutex());

  // Fills in what was stored and evicted since the store was opened.
  void AddCounts(DBStats* stats) const;

 private:
  // Whose context is stored, and of which model.
  struct Owner {
    const Tenant& tenant;
    ModelId model;
  };

  Result<Stored> StoreOnce(const StoreRequest& request) ATTNDB_EXCLUDES(parts_.commits->mutex());
  Result<bool> IsCutAlike(const StoreRequest& request) const;
  // Checks, before anything is written, what can be refused by then: as CheckStore.
  Status CheckRequest(const StoreRequest& request, const Tenant& tenant)
      ATTNDB_EXCLUDES(parts_.commits->mutex());
  // Writes the request's tail as a segment that no commit names yet. Nothing if there is no tail.
  // Tenants' seals do not wait for each other.
  Result<std::optional<SegmentRecord>> SealTail(const StoreRequest& request, ModelId model);
  Result<Stored> Publish(const StoreRequest& request, const Owner& owner,
                         const std::optional<SegmentRecord>& sealed)
      ATTNDB_REQUIRES(parts_.commits->mutex());
  // Checks that the name may be given to a new context.
  Status CheckName(const Tenant& tenant, const StoreOptions& options) const;
  Status TryDrop(const std::string& tenant, std::string_view context)
      ATTNDB_EXCLUDES(parts_.commits->mutex());

  const Parts parts_;
  // Counters: independent, so relaxed.
  std::atomic<uint64_t> num_stores_ = 0;
  std::atomic<uint64_t> num_evictions_ = 0;
  std::atomic<uint64_t> bytes_written_ = 0;
  Writers writers_;  // The last: their jobs use all others until they have ended.
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_PUBLISHER_H_
