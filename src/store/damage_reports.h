// Segments whose bytes turn out to be wrong are quarantined. Who only reads takes a note and waits
// for no disk; the catalog learns of it later.
//
// Threads: thread-safe. Latching order: writing_, the catalog's, mutex_, which is a leaf.
#ifndef ATTNDB_STORE_DAMAGE_REPORTS_H_
#define ATTNDB_STORE_DAMAGE_REPORTS_H_

#include <map>
#include <string>

#include "common/mutex.h"
#include "derived/lanes.h"
#include "storage/kv/segment.h"
#include "store/catalog/catalog.h"

namespace attndb::store {

class DamageReports {
 public:
  // Both must outlive it; the lanes may have stopped.
  DamageReports(Catalog* catalog, derived::Lanes* background)
      : catalog_(catalog), background_(background) {}
  ~DamageReports() { Quarantine(); }
  DamageReports(const DamageReports&) = delete;
  DamageReports& operator=(const DamageReports&) = delete;

  // Notes that the segment's rows could not be read. If `status` says that its bytes are wrong, it
  // will be quarantined: by the background, or by the next call that looks into the catalog.
  void Note(const storage::Segment& segment, const Status& status) ATTNDB_EXCLUDES(mutex_);
  // Quarantines what was noted: when it returns the catalog knows, whichever thread wrote it down.
  // May wait for the catalog. If that can't be written the note is lost: the next reader of the
  // segment takes it again.
  void Quarantine() ATTNDB_EXCLUDES(writing_, mutex_);
  // The error for a segment that the catalog names and that could not be read with `status`. Where
  // its bytes are wrong or missing, it is quarantined, if the store may be written to: then
  // kCorruption. Otherwise `status`.
  Status QuarantineIfDamaged(SegmentId segment, Status status);

 private:
  Catalog* const catalog_;
  derived::Lanes* const background_;
  Mutex writing_;  // Held while notes go to the catalog.
  Mutex mutex_;
  std::map<SegmentId, std::string> noted_ ATTNDB_GUARDED_BY(mutex_);
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_DAMAGE_REPORTS_H_
