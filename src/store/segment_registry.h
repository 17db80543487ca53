// The segments of a store as files: written, open in this process, removed. Each is open once,
// whoever reads it. Those that nobody reads any more stay open for the next, up to a number of
// them: each holds its manifest in memory.
//
// Threads: thread-safe.
#ifndef ATTNDB_STORE_SEGMENT_REGISTRY_H_
#define ATTNDB_STORE_SEGMENT_REGISTRY_H_

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "attndb/result.h"
#include "common/mutex.h"
#include "storage/io/file_system.h"
#include "storage/kv/memory_budget.h"
#include "storage/kv/segment.h"
#include "storage/kv/segment_writer.h"
#include "store/catalog/catalog.h"

namespace attndb::store {

// K and V shapes of a spec, as storage needs them.
storage::KvShape ShapeOf(const ModelSpec& spec);

class SegmentRegistry {
 public:
  // Open segments that nobody reads are closed beyond this.
  static constexpr size_t kMaxIdle = 256;

  // All arguments must outlive the registry.
  SegmentRegistry(storage::FileSystem* file_system, std::string dir, Catalog* catalog,
                  storage::MemoryBudget* budget)
      : file_system_(file_system), dir_(std::move(dir)), catalog_(catalog), budget_(budget) {}

  // The segment of `record`, opened and verified if it is not open yet.
  // Errors: as storage::Segment::Open.
  Result<std::shared_ptr<storage::Segment>> Get(const SegmentRecord& record)
      ATTNDB_EXCLUDES(mutex_);

  // Opens the segment a second time, for Verify: nothing that was verified before counts.
  Result<std::shared_ptr<storage::Segment>> OpenAfresh(const SegmentRecord& record)
      ATTNDB_EXCLUDES(mutex_);

  // Looks whether the files of a segment are there, which have so many bytes. Reads none of them.
  // Errors: kCorruption; kIoError.
  Status CheckFiles(SegmentId id, uint64_t file_bytes) const;

  // Whether anyone but the registry holds it.
  bool InUse(SegmentId id) const ATTNDB_EXCLUDES(mutex_);
  size_t num_open() const ATTNDB_EXCLUDES(mutex_);

  // Writes a segment of the record's model, position and number of tokens, under a new id. Fills in
  // the id and what was found while writing. It is loose: no commit names it yet.
  Status Write(storage::SegmentSource* source, SegmentRecord* record) ATTNDB_EXCLUDES(mutex_);
  // A commit names the segment that was written, or one that was to be removed.
  void NoteNamed(SegmentId id);
  // The segment will lose its last commit: its files may be removed, by the next open if need be.
  Status NoteLoose(SegmentId id);
  // Takes the segment out of the registry; its readers go on.
  void Forget(SegmentId id) ATTNDB_EXCLUDES(mutex_);
  // The same, and removes the files of the segment, which no commit names. False if they are there
  // still.
  bool Discard(SegmentId id) ATTNDB_EXCLUDES(mutex_);

 private:
  using SegmentPtr = std::shared_ptr<storage::Segment>;
  struct OpenSegment {
    SegmentPtr segment;
    uint64_t last_use = 0;
  };

  // The identity that segments of `model` are checked against, without their own numbers.
  Result<storage::SegmentIdentity> IdentityOf(ModelId model) ATTNDB_EXCLUDES(mutex_);
  Result<storage::SegmentExpectation> Expect(const SegmentRecord& record);
  std::string LoosePath(SegmentId id) const;
  Status MakeLoose(SegmentId id);
  // Takes out segments that nobody else holds, the longest unused first, while there are too many.
  // The caller destroys them after it has released the lock.
  std::vector<SegmentPtr> Shrink() ATTNDB_REQUIRES(mutex_);

  storage::FileSystem* const file_system_;
  const std::string dir_;
  Catalog* const catalog_;
  storage::MemoryBudget* const budget_;

  // A leaf, but for the catalog's own mutex. No file is read under it.
  mutable Mutex mutex_;
  std::unordered_map<SegmentId, OpenSegment> open_ ATTNDB_GUARDED_BY(mutex_);
  uint64_t num_uses_ ATTNDB_GUARDED_BY(mutex_) = 0;
  std::unordered_map<int64_t, storage::SegmentIdentity> identities_ ATTNDB_GUARDED_BY(mutex_);
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_SEGMENT_REGISTRY_H_
