// Records readers: contexts that must not be evicted, segments that must not be removed while they
// are opened, and segments that are removed once their last reader is gone.
//
// Threads: thread-safe. Every session takes the mutex when it begins and ends, so no file is read,
//          written or removed under it. Instead a segment that is being opened or removed is noted.
//          Order of locks: mutex_, then those of the builder and the registry.
#ifndef ATTNDB_STORE_USES_H_
#define ATTNDB_STORE_USES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"
#include "common/mutex.h"
#include "derived/builder.h"
#include "derived/cache.h"
#include "derived/object_files.h"
#include "storage/kv/chain_entry.h"
#include "store/catalog/catalog.h"
#include "store/damage_reports.h"
#include "store/merged_runs.h"
#include "store/segment_registry.h"

namespace attndb::store {

class Uses {
 public:
  // All must outlive it.
  struct Parts {
    Catalog* catalog;
    DamageReports* damage;
    SegmentRegistry* registry;
    MergedRuns* merged_runs;
    derived::Cache* objects;
    derived::Builder* builder;
    const derived::ObjectFiles* object_files;
  };
  struct OpenedSegment {
    SegmentRecord record;
    std::shared_ptr<storage::Segment> segment;
  };

  explicit Uses(const Parts& parts) : parts_(parts) {}

  // Keeps the context from being evicted while the result lives, and counts the call as an access.
  // This object must outlive the result. Null for no context.
  std::shared_ptr<const void> Hold(ContextId context) ATTNDB_EXCLUDES(mutex_);
  // In ascending order.
  std::vector<ContextId> ContextsInUse() const ATTNDB_EXCLUDES(mutex_);

  // Opens the context's first segments, as many as hold `num_tokens`, except those that `have`
  // holds. Quarantines a damaged segment.
  // Errors: kNotFound (no such context); those of opening a segment.
  Result<std::vector<storage::ChainEntry>> OpenContext(
      ContextId context, uint64_t num_tokens = UINT64_MAX,
      std::span<const storage::ChainEntry> have = {}) ATTNDB_EXCLUDES(mutex_);
  // Errors: kFailedPrecondition (the segment no longer exists); those of opening it.
  Result<OpenedSegment> OpenSegment(SegmentId id) ATTNDB_EXCLUDES(mutex_);

  // Segments that had readers when they lost their last context.
  std::vector<SegmentId> Unreferenced() const ATTNDB_EXCLUDES(mutex_);
  // Takes segments that have lost their last context. Removes those without readers now, and the
  // others when their readers are gone.
  void RemoveUnreferenced(std::span<const SegmentId> segments) ATTNDB_EXCLUDES(mutex_);
  // Removes the files of segments that lost their last context and, since, their last reader.
  void Sweep() ATTNDB_EXCLUDES(mutex_);
  // Waits until the segments that are being removed are gone: until then they count.
  void AwaitRemovals() ATTNDB_EXCLUDES(mutex_);

 private:
  class Opening;
  // Attempts to read a chain again because a segment of it is being removed: the chain has then
  // changed.
  static constexpr int kMaxAttempts = 8;

  void EndUse(ContextId context) ATTNDB_EXCLUDES(mutex_);
  // Like OpenContext, for a chain that was read before. kNotFound: a segment of it is being
  // removed.
  Result<std::vector<storage::ChainEntry>> OpenChain(std::span<const ChainLink> links,
                                                     std::span<const storage::ChainEntry> have)
      ATTNDB_EXCLUDES(mutex_);
  // Takes the segments that nobody reads or opens, and notes the others.
  std::vector<SegmentId> BeginRemoval(std::span<const SegmentId> segments) ATTNDB_EXCLUDES(mutex_);

  // Whether the segment's row may go: a later open that finds its files must know that they may go,
  // too.
  bool MakeRemovable(SegmentId id) const;

  const Parts parts_;

  mutable Mutex mutex_;
  // Segments that are being opened, with the number of openers; and those that are being removed.
  // Never both.
  std::map<SegmentId, uint32_t> opening_ ATTNDB_GUARDED_BY(mutex_);
  std::set<SegmentId> removing_ ATTNDB_GUARDED_BY(mutex_);
  CondVar removed_;  // Signalled when removing_ loses segments.
  // Number of uses of each context.
  std::map<ContextId, uint32_t> in_use_ ATTNDB_GUARDED_BY(mutex_);
  // Segments without a context that still have readers.
  std::set<SegmentId> unreferenced_ ATTNDB_GUARDED_BY(mutex_);
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_USES_H_
