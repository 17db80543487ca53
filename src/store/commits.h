// The commits of a store, one at a time: what has expired goes before one, and what becomes of a
// segment is known after it.
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

  // Held by who commits, or chooses whom to evict.
  Mutex* mutex() const ATTNDB_RETURN_CAPABILITY(mutex_) { return &mutex_; }

  // Drops contexts whose time to live is over.
  Status Expire() ATTNDB_EXCLUDES(mutex_);
  // Called after a commit that was to name `segment`, if any, and those that were sealed before.
  // One that failed while it was written may yet be found when the store is opened after a crash;
  // then its segments must be there, until a later commit has overwritten the failed one. Else
  // `segment` goes at once, and the others are the caller's to abandon.
  void Ended(std::optional<SegmentId> segment, std::span<const SegmentRecord> sealed,
             const Status& status) ATTNDB_REQUIRES(mutex_);
  // Removes the files of a segment that will not be named any more, unless a commit that failed and
  // names it may yet be found.
  void Abandon(SegmentId segment) ATTNDB_REQUIRES(mutex_);

 private:
  Catalog* const catalog_;
  SegmentRegistry* const registry_;
  Uses* const uses_;

  mutable Mutex mutex_;
  // Segments whose commit failed, and may be found all the same.
  std::set<SegmentId> doubtful_ ATTNDB_GUARDED_BY(mutex_);
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_COMMITS_H_
