// The commits of a store, one at a time. Drops expired contexts before a commit, and decides after
// a commit whether the files of a segment stay.
//
// Threads: thread-safe. Its mutex is taken before that of the uses, and after that of merges.
#ifndef ATTNDB_STORE_COMMITS_H_
#define ATTNDB_STORE_COMMITS_H_

#include <optional>
#include <set>
#include <span>

#include "attndb/status.h"
#include "common/mutex.h"
#include "store/catalog/catalog.h"
#include "store/segment_registry.h"
#include "store/uses.h"

namespace attndb::store {

class Commits {
 public:
  // All must outlive it.
  Commits(Catalog* catalog, SegmentRegistry* registry, Uses* uses)
      : catalog_(catalog), registry_(registry), uses_(uses) {}

  // Held by every caller that commits or chooses contexts to evict.
  Mutex* mutex() const ATTNDB_RETURN_CAPABILITY(mutex_) { return &mutex_; }

  // Drops contexts whose time to live is over.
  Status Expire() ATTNDB_EXCLUDES(mutex_);
  // Call it after a commit that was to name `segment`, if any, and the segments that were sealed
  // before. A commit that failed during its write may still be found when the store is opened after
  // a crash. Its segments must then exist, until a later commit has overwritten the failed one. If
  // the commit surely failed, `segment` is removed at once; the caller abandons the sealed ones.
  void Ended(std::optional<SegmentId> segment, std::span<const SegmentRecord> sealed,
             const Status& status) ATTNDB_REQUIRES(mutex_);
  // Removes the files of a segment that no later commit will name, unless a failed commit that
  // names it may still be found.
  void Abandon(SegmentId segment) ATTNDB_REQUIRES(mutex_);

 private:
  Catalog* const catalog_;
  SegmentRegistry* const registry_;
  Uses* const uses_;

  mutable Mutex mutex_;
  // Segments whose commit failed and may still be found.
  std::set<SegmentId> doubtful_ ATTNDB_GUARDED_BY(mutex_);
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_COMMITS_H_
