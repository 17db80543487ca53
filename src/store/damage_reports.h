// Quarantines segments with wrong bytes; their first tokens stay in service as far as they are
// sound. A reader only takes a note and does not wait for the disk. The catalog gets the damage
// later, from a thread that reads the whole segment again.
//
// Threads: thread-safe. Latching order: writing_, the catalog's, mutex_, which is a leaf.
#ifndef ATTNDB_STORE_DAMAGE_REPORTS_H_
#define ATTNDB_STORE_DAMAGE_REPORTS_H_

#include <set>
#include <string>
#include <vector>

#include "common/mutex.h"
#include "derived/lanes.h"
#include "storage/kv/segment.h"
#include "store/catalog/catalog.h"
#include "store/segment_registry.h"

namespace attndb::store {

class DamageReports {
 public:
  // All must outlive it; the lanes may have stopped.
  DamageReports(Catalog* catalog, SegmentRegistry* registry, derived::Lanes* background)
      : catalog_(catalog), registry_(registry), background_(background) {}
  ~DamageReports() { Quarantine(); }
  DamageReports(const DamageReports&) = delete;
  DamageReports& operator=(const DamageReports&) = delete;

  // Notes that the segment's rows could not be read. If `status` says that its bytes are wrong, the
  // segment will be quarantined: in the background, or by the next call that reads the catalog.
  void Note(const storage::Segment& segment, const Status& status) ATTNDB_EXCLUDES(mutex_);
  // Quarantines all noted segments. When it returns the catalog has them, whichever thread wrote
  // them. Reads each of these segments, and may wait for the catalog. If the catalog can't be
  // written, the note is lost: the next reader of the segment takes it again.
  void Quarantine() ATTNDB_EXCLUDES(writing_, mutex_);
  // Returns the error for a segment of the catalog that could not be read with `status`. If its
  // bytes are wrong or missing and the store is writable, quarantines the segment and returns
  // kCorruption. Else returns `status`. Reads the whole segment again, so that contexts with sound
  // tokens stay in service.
  Status QuarantineIfDamaged(SegmentId segment, Status status);

  // Checks that the segment's files exist and have `file_bytes` bytes; reads none of them. If a
  // file of a segment in the catalog is missing, quarantines the segment, as above.
  // Errors: kCorruption; kIoError; those of the catalog.
  Status CheckFiles(SegmentId segment, uint64_t file_bytes);

  // Reads the whole segment again and returns its damage.
  storage::SegmentDamage Find(const SegmentRecord& record) const;
  // Returns the contexts that are out of service: as CatalogSegments::Quarantine.
  Result<std::vector<ContextRecord>> Quarantine(SegmentId segment,
                                                const storage::SegmentDamage& damage);
  // A message for people: the damaged and the sound part.
  static std::string MessageOf(const storage::SegmentDamage& damage);

 private:
  Catalog* const catalog_;
  SegmentRegistry* const registry_;
  derived::Lanes* const background_;
  Mutex writing_;  // Held while notes go to the catalog.
  Mutex mutex_;
  std::set<SegmentId> noted_ ATTNDB_GUARDED_BY(mutex_);
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_DAMAGE_REPORTS_H_
