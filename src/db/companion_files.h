// Companions of segments as the store has them: written, opened, and given up when damaged.
//
// A companion can be made again from its segment, so its loss is nobody's error: one that can't be
// read is as good as none, and one whose bytes are wrong is dropped, to be built anew.
//
// Threads: thread-safe.
#ifndef ATTNDB_DB_COMPANION_FILES_H_
#define ATTNDB_DB_COMPANION_FILES_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "attndb/result.h"
#include "db/catalog/catalog.h"
#include "storage/io/file_system.h"
#include "storage/kv/companion.h"
#include "storage/kv/companion_writer.h"
#include "storage/kv/segment.h"

namespace attndb::internal {

struct CompanionKind {
  std::string name;                 // Of objects; one whose bytes change gets another.
  std::vector<std::string> parts;   // Of each head.
  uint64_t min_tokens = 0;          // Shorter segments have none.
  std::vector<std::string> former;  // Names of what had other bytes, which nobody reads any more.
};

class CompanionFiles {
 public:
  // `file_system` and `catalog` must outlive it. `on_lost` is called with a segment that has lost a
  // companion. Read-only, nothing is ever dropped.
  CompanionFiles(storage::FileSystem* file_system, std::string dir, db::Catalog* catalog,
                 bool read_only, std::function<void(db::SegmentId)> on_lost);

  // The segment's companion of this kind; null if it has none that can be read.
  std::shared_ptr<const storage::Companion> Open(const storage::Segment& segment,
                                                 const CompanionKind& kind);

  // A writer of a new one. Errors: as Catalog::ReserveGeneration and CompanionWriter.
  Result<std::unique_ptr<storage::CompanionWriter>> Create(const storage::Segment& segment,
                                                           const CompanionKind& kind,
                                                           const std::atomic<bool>* cancel);

  // Reads every byte and compares it with its checksum.
  Status Verify(const storage::ObjectName& name, const Sha256Digest& root_hash) const;

  // A companion was published; how many were, since the store was opened.
  void NotePublished() { num_published_.fetch_add(1, std::memory_order_relaxed); }
  uint64_t num_published() const { return num_published_.load(std::memory_order_relaxed); }

  // Drops the companion if `status`, of reading it, says that its bytes are wrong.
  void ReportDamage(const storage::ObjectName& name, const Status& status);

  // Removes the files of a companion that the catalog does not name (any more). If that fails they
  // are orphans, which the next open removes.
  void RemoveFiles(const storage::ObjectName& name);

 private:
  storage::CompanionExpectation Expect(const storage::Segment& segment, const CompanionKind& kind,
                                       uint64_t generation) const;

  storage::FileSystem* const file_system_;
  const std::string dir_;
  db::Catalog* const catalog_;
  const bool read_only_;
  const std::function<void(db::SegmentId)> on_lost_;
  std::atomic<uint64_t> num_published_ = 0;  // Relaxed: who comes too early looks again later.
};

}  // namespace attndb::internal

#endif  // ATTNDB_DB_COMPANION_FILES_H_
