// What derived objects need of the store whose segments they are made from: opening a segment, room
// for more bytes, a number for a new object, a commit, and somebody to tell of what is damaged.
//
// Only the background calls it: every function may read the catalog, wait for a lock or a disk.
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
using RunId = uint64_t;  // A segment's, or that of a block of a tail: storage::KvRun::id.

// A derived object on disk, as the catalog knows it.
struct ObjectRecord {
  std::string kind;         // Kind::Traits::object.
  uint64_t generation = 0;  // Tells it from earlier ones of its kind and segment.
  uint64_t file_bytes = 0;
  Sha256Digest root_hash{};
};

// A segment, as the catalog knows it.
struct SegmentFacts {
  SegmentId id = 0;
  uint64_t num_tokens = 0;
  uint64_t kv_bytes = 0;
  bool damaged = false;
  std::vector<ObjectRecord> objects;
  std::vector<std::string> wishes;  // Kinds that it is to have (Store::Wish), Kind::Traits::object.

  bool IsWished(std::string_view kind) const {
    return std::ranges::find(wishes, kind) != wishes.end();
  }

  // Of the newest generation; null if there is none of the kind.
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

  // Errors: kFailedPrecondition (there is no such segment any more); those of opening it.
  virtual Result<OpenedSegment> OpenSegment(SegmentId id) = 0;
  // Called after a segment of OpenSegment was let go of: it may have been dropped meanwhile.
  virtual void SegmentReleased() = 0;

  // Errors: kFailedPrecondition (an object of so many bytes has no room on the disk, or in the
  //         quota of the segment's owner: nothing is evicted for it).
  virtual Status Admit(SegmentId id, uint64_t bytes) = 0;
  // Errors: those of the catalog's commit.
  virtual Result<uint64_t> ReserveGeneration() = 0;
  // Notes for good that the segment is to have an object of the kind, until it is published: what a
  // process leaves undone the next one does. Nothing if the segment is gone or damaged.
  // Errors: those of the commit.
  virtual Status Wish(SegmentId id, std::string_view kind) = 0;
  // Commits an object whose files are durable, in the place of those before it of its kind.
  // Errors: as Admit; those of the commit; kFailedPrecondition (the segment is gone or damaged).
  virtual Status PublishObject(SegmentId id, const ObjectRecord& object) = 0;

  // `status` says what came of reading the segment's rows.
  virtual void ReportDamage(const storage::Segment& segment, const Status& status) = 0;
  // `status` says why the object can't be read. If its bytes are wrong it is dropped.
  virtual void ReportLoss(const storage::ObjectName& name, const Status& status) = 0;
};

}  // namespace attndb::derived

#endif  // ATTNDB_DERIVED_STORE_H_
