// Objects that are derived from the store's segments: the store's side of their interface
// (derived/store.h), when they are built, and when they are given up.
//
// Parts:   build.cc has the builds that a caller requests and waits for.
// Threads: thread-safe. GiveUp, PublishObject and functions that wait for builds take the mutex of
//          commits, or wait for its holder.
#ifndef ATTNDB_STORE_DERIVED_OBJECTS_H_
#define ATTNDB_STORE_DERIVED_OBJECTS_H_

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "attndb/options.h"
#include "attndb/result.h"
#include "attndb/stats.h"
#include "derived/builder.h"
#include "derived/cache.h"
#include "derived/kinds.h"
#include "derived/lanes.h"
#include "derived/object_files.h"
#include "derived/store.h"
#include "storage/kv/chain_entry.h"
#include "store/catalog/catalog.h"
#include "store/commits.h"
#include "store/damage_reports.h"
#include "store/merged_runs.h"
#include "store/settings.h"
#include "store/space.h"
#include "store/tenant_counts.h"
#include "store/uses.h"

namespace attndb::store {

class DerivedObjects final : public derived::Store {
 public:
  // All must outlive it.
  struct Parts {
    const Settings* settings;
    Catalog* catalog;
    DamageReports* damage;
    Uses* uses;
    Commits* commits;
    const Space* space;
    const derived::Kinds* kinds;
    derived::Cache* cache;
    derived::Builder* builder;
    const derived::ObjectFiles* files;
    MergedRuns* merged_runs;
    derived::Lanes* background;
    TenantCounts* counts;
  };

  explicit DerivedObjects(const Parts& parts) : parts_(parts) {}

  // --- Building. ---

  // Drops objects of kinds that newer kinds have replaced. Their files become orphans.
  Status ForgetFormerKinds();
  // Builds the missing objects of segments in the background: for one tenant, or for all with
  // kNone.
  Status ScheduleMissing(TenantId tenant);
  // The number of segments that lack objects, of one tenant.
  Result<uint64_t> CountPending(TenantId tenant) const;
  // Builds the missing objects of the segment in the background.
  void Schedule(SegmentId segment);
  // Builds missing objects in the background, for the chain's segments that hold tokens from
  // `first_token` on.
  void ScheduleFrom(std::span<const storage::ChainEntry> chain, uint64_t first_token);
  // Builds objects of the kind for each segment of the context, and waits for them.
  // Errors: as DB::Build.
  Result<BuildReport> Build(const std::string& tenant, std::string_view context,
                            const derived::Kind& kind, const BuildOptions& options);
  // Whether the merged segment has on disk every kind of object that some segment of its run has.
  bool HasThoseOfRun(const MergedRun& merged) const;

  // --- Giving up. ---

  // Drops all objects of a tenant, or of all with kNone. Returns false if the catalog failed.
  bool DropAll(TenantId tenant);
  // Call it when the disk is full: drops all objects of all tenants, and cancels the builds.
  void GiveUp();
  // Waits until the background has released the segments that lost their last context, and the
  // segments are removed. As long as the background reads them, they count as used.
  void EndDroppedBuilds();

  // --- derived/store.h. ---

  Result<derived::OpenedSegment> OpenSegment(derived::SegmentId id) override;
  void SegmentReleased() override;
  Status Admit(derived::SegmentId id, std::string_view kind, uint64_t bytes) override;
  Result<uint64_t> ReserveGeneration() override;
  Status Wish(derived::SegmentId id, std::string_view kind) override;
  Status PublishObject(derived::SegmentId id, const derived::ObjectRecord& object) override;
  void DropObject(const storage::ObjectName& name) override;
  void ReportDamage(const storage::Segment& segment, const Status& status) override;
  void ReportLoss(const storage::ObjectName& name, const Status& status) override;

 private:
  Result<std::set<SegmentId>> SegmentsToBuild(TenantId tenant) const;
  // Forgets objects that the catalog no longer names, and removes their files.
  void Forget(std::span<const storage::ObjectName> names);
  // Errors: kFailedPrecondition (the segment is gone).
  Result<SegmentRecord> SegmentToBuild(derived::SegmentId id) const;

  // The segment's objects that go once an object of the kind is published: earlier objects, and
  // unfinished builds of the kind.
  std::vector<CompanionRecord> ReplacedBy(const SegmentRecord& record, std::string_view kind) const;

  const Parts parts_;
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_DERIVED_OBJECTS_H_
