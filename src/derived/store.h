// The interface of derived objects to the store of their segments. The store opens segments, admits
// bytes, numbers and publishes objects, and is told about damage.
//
// Only background threads call it: each function may read the catalog, and wait for a lock or the
// disk.
//
// Threads: thread-safe.
#ifndef ATTNDB_DERIVED_STORE_H_
#define ATTNDB_DERIVED_STORE_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"
#include "common/sha256.h"
#include "storage/kv/segment.h"
#include "storage/vfs/object_name.h"

namespace attndb::derived {

using SegmentId = uint64_t;
using RunId = uint64_t;  // Id of a segment or of a block of a tail: storage::KvRun::id.

// The catalog's record of a derived object on disk.
struct ObjectRecord {
  std::string kind;         // Kind::Traits::object.
  uint64_t generation = 0;  // Later objects of the same kind and segment have larger ones.
  uint64_t file_bytes = 0;
  Sha256Digest root_hash{};
};

// The catalog's record of a segment.
struct SegmentFacts {
  SegmentId id = 0;
  uint64_t owner = 0;  // The owner of its jobs: Lanes::Job::owner.
  uint64_t num_tokens = 0;
  uint64_t kv_bytes = 0;
  bool damaged = false;
  std::vector<ObjectRecord> objects;
  // Kinds (Kind::Traits::object) that the segment is to have: Store::Wish.
  std::vector<std::string> wishes;

  bool IsWished(std::string_view kind) const {
    return std::ranges::find(wishes, kind) != wishes.end();
  }

  // The record of the newest generation; null if there is none of the kind.
  const ObjectRecord* Find(std::string_view kind) const {
    const ObjectRecord* newest = nullptr;
    for (const ObjectRecord& object : objects) {
      if (object.kind != kind) continue;
      if (newest == nullptr || object.generation > newest->generation) newest = &object;
    }
    return newest;
  }
};

struct OpenedSegment {
  SegmentFacts facts;
  ModelSpec spec;
  std::shared_ptr<const storage::Segment> segment;
};

class Store {
 public:
  virtual ~Store() = default;

  // Opens a segment. Errors: kFailedPrecondition (the segment no longer exists); those of opening
  // it.
  virtual Result<OpenedSegment> OpenSegment(SegmentId id) = 0;
  // Call it after a segment of OpenSegment was released. The segment may have been dropped
  // meanwhile; its files are then removed.
  virtual void SegmentReleased() = 0;

  // Ok if an object of the kind with `bytes` bytes may be written. The quota counts the objects
  // that it replaces as free: earlier ones, and interrupted builds of it. If the disk has no room
  // for both, drops the replaced objects, unless that does not suffice.
  // Errors: kFailedPrecondition (no room on the disk, or in the quota of the segment's owner:
  //         nothing else is evicted for an object).
  virtual Status Admit(SegmentId id, std::string_view kind, uint64_t bytes) = 0;
  // Returns a generation for a new object. Errors: those of the catalog's commit.
  virtual Result<uint64_t> ReserveGeneration() = 0;
  // Records that the segment is to have an object of the kind. The record stays until the object is
  // published, so that the next process completes the work. Does nothing if the segment is gone or
  // damaged.
  // Errors: those of the commit.
  virtual Status Wish(SegmentId id, std::string_view kind) = 0;
  // Commits an object whose files are durable; it replaces earlier ones of its kind.
  // Errors: as Admit; those of the commit; kFailedPrecondition (the segment is gone or damaged).
  virtual Status PublishObject(SegmentId id, const ObjectRecord& object) = 0;

  // Forgets an object that is no longer needed, and removes its files.
  virtual void DropObject(const storage::ObjectName& name) = 0;

  // Reports the status of reading the segment's rows.
  virtual void ReportDamage(const storage::Segment& segment, const Status& status) = 0;
  // Reports why the object can't be read. If its bytes are wrong, the store drops it.
  virtual void ReportLoss(const storage::ObjectName& name, const Status& status) = 0;
};

}  // namespace attndb::derived

#endif  // ATTNDB_DERIVED_STORE_H_
