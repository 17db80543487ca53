// Merges a run of a chain into one segment: the small segments at a chain's end after a Store, and
// the runs of a Compact. A Store never waits for a merge: no row is copied under the mutex of
// commits.
//
// Parts:   Compact is in compact.cc; merge_policy.h chooses the segments.
// Errors:  a Compact calls its progress callback under the mutex of merges. A call of that callback
//          that waits for a merge would wait for ever: CheckMayWait refuses it.
// Threads: thread-safe. Its mutex is taken before that of commits.
#ifndef ATTNDB_STORE_MERGER_H_
#define ATTNDB_STORE_MERGER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "attndb/options.h"
#include "attndb/result.h"
#include "attndb/types.h"
#include "common/mutex.h"
#include "derived/builder.h"
#include "derived/cache.h"
#include "derived/lanes.h"
#include "storage/kv/chain_entry.h"
#include "store/catalog/catalog.h"
#include "store/commits.h"
#include "store/derived_objects.h"
#include "store/merged_runs.h"
#include "store/segment_registry.h"
#include "store/settings.h"
#include "store/space.h"
#include "store/tenant_counts.h"
#include "store/uses.h"
#include "store/verifier.h"

namespace attndb::store {

class Merger {
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
    derived::Builder* builder;
    Verifier* verifier;
    MergedRuns* merged_runs;
    derived::Lanes* background;
    TenantCounts* counts;
  };

  explicit Merger(const Parts& parts) : parts_(parts) {}

  // Ok if this thread may wait for merges. `call` is named in the error.
  // Errors: kFailedPrecondition (called by the progress of a Compact).
  Status CheckMayWait(std::string_view call) const;

  // Merges the small segments at the end of the context's chain in the background, and then builds
  // the derived objects of the merged segments.
  void Schedule(TenantId tenant, ContextId context);
  // Does the same in this thread for a context that was just stored. Returns its chain.
  std::vector<storage::ChainEntry> MergeNow(TenantId tenant, ContextId context,
                                            std::vector<storage::ChainEntry> chain)
      ATTNDB_EXCLUDES(mutex_, parts_.commits->mutex());
  // Forgets waiting merges and ends the running one: on a full disk merges take room. The next
  // Store of each context schedules its merge again.
  void GiveUp() ATTNDB_EXCLUDES(mutex_);
  // Waits for the running merge: its files take room on a full disk until it ends.
  void Await() ATTNDB_EXCLUDES(mutex_);
  // Errors: as DB::Compact.
  Status Compact(const std::string& tenant, const CompactOptions& options)
      ATTNDB_EXCLUDES(mutex_, parts_.commits->mutex());

 private:
  class Compaction;
  // Called before each layer with the bytes of the run's K and V that are copied; false cancels.
  using Progress = std::function<bool(uint64_t bytes_done)>;

  // Merges the small segments that Stores left at the end of the chain (merge_policy.h), as far as
  // CheckDisk finds room.
  Status MergeEnd(TenantId tenant, ContextId context, const Progress& progress)
      ATTNDB_REQUIRES(mutex_) ATTNDB_EXCLUDES(parts_.commits->mutex());
  // Replaces the run by one segment of the tokens that the chain uses. Quarantines damaged segments
  // of the run. `progress` may be null.
  Status MergeRun(std::span<const ChainSegment> run, const Progress& progress)
      ATTNDB_REQUIRES(mutex_) ATTNDB_EXCLUDES(parts_.commits->mutex());
  Status TryMergeRun(std::span<const ChainSegment> run, const Progress& progress)
      ATTNDB_REQUIRES(mutex_) ATTNDB_EXCLUDES(parts_.commits->mutex());

  // Copies no row under a lock that Stores need: the run is checked again when it is replaced.
  // Errors: kFailedPrecondition (no chain has this run any more).
  Result<SegmentRecord> WriteMerged(std::span<const ChainSegment> run, const Progress& progress)
      ATTNDB_REQUIRES(mutex_) ATTNDB_EXCLUDES(parts_.commits->mutex());
  // Tells sessions that hold the run about the segment that replaced it.
  void OfferMerged(const MergeRequest& request);
  // With grow_graphs: graphs of the merged segment are grown from those of the run's first segment.
  void NoteGrowth(const ChainSegment& first, const SegmentRecord& merged);

  const Parts parts_;

  mutable Mutex mutex_;  // One merge or Compact at a time.
  // The thread in which a Compact runs its progress callback; none if none does. Relaxed: a thread
  // compares only its own id.
  std::atomic<std::thread::id> reporter_ = std::thread::id();
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_MERGER_H_
