// Segments whose bytes turn out to be wrong are quarantined, but for their first tokens as far as
// these are whole. Who only reads takes a note and waits for no disk; the catalog learns of it
// later, by whoever reads the whole segment again.
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

  // Notes that the segment's rows could not be read. If `status` says that its bytes are wrong, it
  // will be quarantined: by the background, or by the next call that looks into the catalog.
  void Note(const storage::Segment& segment, const Status& status) ATTNDB_EXCLUDES(mutex_);
  // Quarantines what was noted: when it returns the catalog knows, whichever thread wrote it down.
  // Reads each of these segments, and may wait for the catalog. If that can't be written the note
  // is lost: the next reader of the segment takes it again.
  void Quarantine() ATTNDB_EXCLUDES(writing_, mutex_);
  // The error for a segment that the catalog names and that could not be read with `status`. Where
  // its bytes are wrong or missing, it is quarantined, if the store may be written to: then
  // kCorruption. Otherwise `status`. All of it is read again: contexts whose tokens are sound then
  // stay in service.
  Status QuarantineIfDamaged(SegmentId segment, Status status);

  // Looks whether the segment's files are there, which have so many bytes, and reads none of them.
  // A segment that the catalog names and that lacks some is quarantined, as above.
  // Errors: kCorruption; kIoError; those of the catalog.
  Status CheckFiles(SegmentId segment, uint64_t file_bytes);

  // What is wrong with a segment, by reading all of it anew.
  storage::SegmentDamage Find(const SegmentRecord& record) const;
  // Gives the contexts that are out of service: as CatalogSegments::Quarantine.
  Result<std::vector<ContextRecord>> Quarantine(SegmentId segment,
                                                const storage::SegmentDamage& damage);
  // What is wrong, and what is not, for people.
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
