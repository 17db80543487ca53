// The segments of a store as files: writes, opens and removes them. Each segment is open once in
// this process, however many readers it has. Up to a limit, segments without readers stay open for
// the next reader: each holds its manifest in memory.
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

  // Opens the segment a second time, for Verify. Earlier verifications do not count.
  Result<std::shared_ptr<storage::Segment>> OpenAfresh(const SegmentRecord& record)
      ATTNDB_EXCLUDES(mutex_);

  // Checks that the segment's files exist and have `file_bytes` bytes. Reads none of them.
  // Errors: kCorruption; kIoError.
  Status CheckFiles(SegmentId id, uint64_t file_bytes) const;

  // Whether anything but the registry holds it.
  bool InUse(SegmentId id) const ATTNDB_EXCLUDES(mutex_);
  size_t num_open() const ATTNDB_EXCLUDES(mutex_);

  // Writes a segment with the record's model, position and number of tokens, under a new id. Fills
  // in the id and the results of the write. The segment is loose: no commit names it yet.
  Status Write(storage::SegmentSource* source, SegmentRecord* record) ATTNDB_EXCLUDES(mutex_);
  // Call it when a commit names the segment, be it a new one or one that was to be removed.
  void NoteNamed(SegmentId id);
  // Call it before the segment loses its last commit. From then on its files may be removed, also
  // by the next open.
  Status NoteLoose(SegmentId id);
  // Removes the segment from the registry. Its readers continue.
  void Forget(SegmentId id) ATTNDB_EXCLUDES(mutex_);
  // Like Forget, and removes the files of the segment, which no commit names. Returns false if
  // files are left.
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
  // While too many segments are open, takes out those without other holders, the longest unused
  // first. The caller destroys them after it has released the lock.
  std::vector<SegmentPtr> Shrink() ATTNDB_REQUIRES(mutex_);

  storage::FileSystem* const file_system_;
  const std::string dir_;
  Catalog* const catalog_;
  storage::MemoryBudget* const budget_;

  // A leaf, except for the catalog's own mutex. No file is read under it.
  mutable Mutex mutex_;
  std::unordered_map<SegmentId, OpenSegment> open_ ATTNDB_GUARDED_BY(mutex_);
  uint64_t num_uses_ ATTNDB_GUARDED_BY(mutex_) = 0;
  std::unordered_map<int64_t, storage::SegmentIdentity> identities_ ATTNDB_GUARDED_BY(mutex_);
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_SEGMENT_REGISTRY_H_
