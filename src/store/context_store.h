// All durable data: contexts, the segments of their chains, and the objects that are derived from
// segments. Opens the parts of the store, which do the work, and connects them.
//
// On disk: LOCK, catalog.db (store/catalog), segments/ (src/storage), reserve (drop_reserve.h),
//          aside/ (orphans.h). The catalog's transaction is the commit. A file that the catalog
//          does not name is an orphan; the next open removes it or puts it aside. A commit is
//          acknowledged only while the store lies where it was opened (place.h).
// Parts:   Lookup finds the chain of a prompt; Publisher stores and drops; Merger; Verifier; Admin;
//          DerivedObjects. They share Uses (readers of contexts and segments); Commits (one at a
//          time); Space (quotas and the disk); DamageReports; MergedRuns; SegmentRegistry.
// Names:   `tenant` is a tenant's name; `context` is a name or "#id", as in DB's functions.
// Threads: thread-safe; its own threads build derived objects. Order of locks: Merger, Commits,
//          Uses, the builder; then the leaves: catalog, registry, lanes, cache and budget.
#ifndef ATTNDB_STORE_CONTEXT_STORE_H_
#define ATTNDB_STORE_CONTEXT_STORE_H_

#include <functional>
#include <memory>
#include <string>

#include "attndb/options.h"
#include "attndb/result.h"
#include "attndb/stats.h"
#include "derived/builder.h"
#include "derived/cache.h"
#include "derived/kinds.h"
#include "derived/lanes.h"
#include "derived/object_files.h"
#include "storage/io/file_pool.h"
#include "storage/io/file_system.h"
#include "storage/kv/memory_budget.h"
#include "store/admin.h"
#include "store/catalog/catalog.h"
#include "store/commits.h"
#include "store/damage_reports.h"
#include "store/derived_objects.h"
#include "store/drop_reserve.h"
#include "store/lanes.h"
#include "store/lookup.h"
#include "store/merged_runs.h"
#include "store/merger.h"
#include "store/place.h"
#include "store/publisher.h"
#include "store/segment_registry.h"
#include "store/settings.h"
#include "store/space.h"
#include "store/tenant_counts.h"
#include "store/uses.h"
#include "store/verifier.h"

namespace attndb::store {

class ContextStore {
 public:
  // Objects of the caller. All of them must outlive the store.
  struct Given {
    storage::FileSystem* file_system = nullptr;
    storage::MemoryBudget* budget = nullptr;
    const derived::Kinds* kinds = nullptr;
    // Called when MergedRuns::Renew may find more than before, perhaps with locks held: must return
    // at once. May be null.
    std::function<void()> merged;
    const derived::Kind* also =
        nullptr;  // Built for every segment, in addition to the usual kinds. May be null.
  };

  static Result<std::unique_ptr<ContextStore>> Open(const std::string& path,
                                                    const DBOptions& options, const Given& given);

 private:
  class Key {  // Only Open can make one: the constructor is public for make_unique alone.
    friend class ContextStore;
    Key() = default;
  };

 public:
  ContextStore(Key key, std::string path, DBOptions options, const Given& given,
               std::unique_ptr<storage::FileLock> lock, std::shared_ptr<DropReserve> reserve,
               std::unique_ptr<Catalog> catalog);

  Lookup* lookup() { return &lookup_; }
  Publisher* publisher() { return &publisher_; }
  Merger* merger() { return &merger_; }
  Verifier* verifier() { return &verifier_; }
  Admin* admin() { return &admin_; }
  DerivedObjects* derived() { return &derived_; }
  Uses* uses() { return &uses_; }
  DamageReports* damage() { return &damage_; }
  const MergedRuns& merged_runs() const { return merged_runs_; }
  TenantCounts* counts() { return &counts_; }

  // Objects that sessions read and request.
  const derived::Cache& objects() const { return objects_; }
  derived::Builder* builder() { return &builder_; }
  // Stop it before the destruction of anything that its jobs use.
  derived::Lanes* background() { return &background_; }

  // Like the functions of DB, without the figures of memory. If `of_all` is true, waits for the
  // work of all tenants, and counts it; contexts and segments are counted for `tenant` only.
  Status WaitForBackground(const std::string& tenant, bool of_all,
                           const derived::Lanes::Progress& progress);
  Result<DBStats> Stats(const std::string& tenant, bool of_all);

  // Like DB::CheckPlace.
  Status CheckPlace() const;

 private:
  // Removes the remains of a crash, and schedules missing builds. May be called again.
  Status BeginToWrite();

  const Settings settings_;
  std::shared_ptr<const Place> place_;             // Set by Open.
  const std::unique_ptr<storage::FileLock> lock_;  // Null if read-only.
  const std::unique_ptr<Catalog> catalog_;
  storage::FilePool files_;  // Files of segments and of derived objects.
  TenantCounts counts_;
  SegmentRegistry registry_;
  DamageReports damage_;
  const std::shared_ptr<DropReserve> reserve_;
  const derived::ObjectFiles object_files_;
  derived::Cache objects_;
  derived::Builder builder_;
  MergedRuns merged_runs_;
  Uses uses_;
  Commits commits_;
  Space space_;
  DerivedObjects derived_;
  Verifier verifier_;
  Merger merger_;
  Lookup lookup_;
  Admin admin_;
  // The last two members: their jobs use all other members until the jobs have ended. The
  // publisher's jobs add jobs to the lanes.
  derived::Lanes background_;
  Publisher publisher_;
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CONTEXT_STORE_H_
