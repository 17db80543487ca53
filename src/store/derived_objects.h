// Objects that are derived from the store's segments: what they need of the store
// (derived/store.h), when they are built, and when they are given up.
//
// Parts:   builds that a caller asks for, and waits for, in build.cc.
// Threads: thread-safe. GiveUp, PublishObject and what waits for builds take the mutex of commits
//          or wait for who has it.
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

  // --- When they are built. ---

  // Drops objects of kinds that newer kinds have replaced. Their files become orphans.
  Status ForgetFormerKinds();
  // Builds, in the background, what segments lack, of one tenant, or of all with kNone.
  Status ScheduleMissing(TenantId tenant);
  // The number of these segments, of one tenant.
  Result<uint64_t> CountPending(TenantId tenant) const;
  // Builds, in the background, what the segment lacks.
  void Schedule(SegmentId segment);
  // Builds, in the background, what the chain's segments that hold tokens from `first_token` on
  // lack.
  void ScheduleFrom(std::span<const storage::ChainEntry> chain, uint64_t first_token);
  // Builds objects of the kind for each segment of the context, and waits for them.
  // Errors: as DB::Build.
  Result<BuildReport> Build(const std::string& tenant, std::string_view context,
                            const derived::Kind& kind, const BuildOptions& options);
  // Whether the merged segment has, on disk, every kind of object that one of its run has.
  bool HasThoseOfRun(const MergedRun& merged) const;

  // --- When they are given up. ---

  // Drops all objects of a tenant, or of all with kNone; false if the catalog could not.
  bool DropAll(TenantId tenant);
  // Drops all objects of all tenants, as the disk is full, and cancels the builds.
  void GiveUp();
  // Waits until the background has let go of segments that lost their last context, and they are
  // gone: they count as used as long as it reads them.
  void EndDroppedBuilds();

  // --- As derived/store.h. ---

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
  // Errors: kFailedPrecondition (it is gone).
  Result<SegmentRecord> SegmentToBuild(derived::SegmentId id) const;

  // The segment's objects that go once one of the kind is published: earlier ones, and builds of
  // it that were cut short.
  std::vector<CompanionRecord> ReplacedBy(const SegmentRecord& record, std::string_view kind) const;

  const Parts parts_;
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_DERIVED_OBJECTS_H_
