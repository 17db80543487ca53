// A run of a chain becomes one segment: the small ones at a chain's end after a Store, and what a
// Compact finds. Nobody who stores waits for it: no row is copied under the mutex of commits.
//
// Parts:   Compact in compact.cc; which segments are merged in merge_policy.h.
// Errors:  a Compact tells its progress under the mutex of merges. What its caller asks for
//          meanwhile that may wait for a merge would wait for ever: CheckMayWait refuses it.
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

  // Merges what Stores left at the end of the context's chain, in the background, and then builds
  // what is derived from the merged segments.
  void Schedule(TenantId tenant, ContextId context);
  // The chain of a context that was stored, after the same in this thread.
  std::vector<storage::ChainEntry> MergeNow(TenantId tenant, ContextId context,
                                            std::vector<storage::ChainEntry> chain)
      ATTNDB_EXCLUDES(mutex_, parts_.commits->mutex());
  // Forgets the merges that wait, and ends the one under way: on a full disk they take room. The
  // next Store of each context schedules its merge again.
  void GiveUp() ATTNDB_EXCLUDES(mutex_);
  // Waits for the merge under way: on a full disk, its files take room until it ends.
  void Await() ATTNDB_EXCLUDES(mutex_);
  // Errors: as DB::Compact.
  Status Compact(const std::string& tenant, const CompactOptions& options)
      ATTNDB_EXCLUDES(mutex_, parts_.commits->mutex());

 private:
  class Compaction;
  // Called before each layer with bytes of K and V of the run that are copied; false cancels.
  using Progress = std::function<bool(uint64_t bytes_done)>;

  // Merges the small segments that Stores left at the end of the chain (merge_policy.h), as far as
  // CheckDisk finds room for that.
  Status MergeEnd(TenantId tenant, ContextId context, const Progress& progress)
      ATTNDB_REQUIRES(mutex_) ATTNDB_EXCLUDES(parts_.commits->mutex());
  // Puts one segment in the place of the run, with what is used of each of its segments.
  // Quarantines segments of the run that are damaged. `progress` may be null.
  Status MergeRun(std::span<const ChainSegment> run, const Progress& progress)
      ATTNDB_REQUIRES(mutex_) ATTNDB_EXCLUDES(parts_.commits->mutex());
  Status TryMergeRun(std::span<const ChainSegment> run, const Progress& progress)
      ATTNDB_REQUIRES(mutex_) ATTNDB_EXCLUDES(parts_.commits->mutex());

  // Copies no row under a lock of those who store: the run is looked at again when it is replaced.
  // Errors: kFailedPrecondition (it is no run of any chain any more).
  Result<SegmentRecord> WriteMerged(std::span<const ChainSegment> run, const Progress& progress)
      ATTNDB_REQUIRES(mutex_) ATTNDB_EXCLUDES(parts_.commits->mutex());
  // Tells sessions that hold the run of the segment that took its place.
  void OfferMerged(const MergeRequest& request);
  // With grow_graphs: graphs of the merged segment are grown from those of the run's first segment.
  void NoteGrowth(const ChainSegment& first, const SegmentRecord& merged);

  const Parts parts_;

  mutable Mutex mutex_;  // One merge or Compact at a time.
  // The thread in which a Compact tells its progress; none if none does. Relaxed: a thread asks for
  // itself alone.
  std::atomic<std::thread::id> reporter_ = std::thread::id();
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_MERGER_H_
