// Notes of segments whose rows turned out to be wrong while a session read them. A session only
// takes the note and waits for no disk; the catalog learns of it later.
//
// Threads: thread-safe. Latching order: writing_, the catalog's, mutex_, which is a leaf.
#ifndef ATTNDB_STORE_DAMAGE_REPORTS_H_
#define ATTNDB_STORE_DAMAGE_REPORTS_H_

#include <map>
#include <string>

#include "common/mutex.h"
#include "store/catalog/catalog.h"

namespace attndb::store {

class DamageReports {
 public:
  // `catalog` must outlive it.
  explicit DamageReports(Catalog* catalog) : catalog_(catalog) {}

  // `damage` says what was expected and found.
  void Note(SegmentId segment, const std::string& damage) ATTNDB_EXCLUDES(mutex_);
  // Quarantines what was noted: when it returns the catalog knows, whichever thread wrote it down.
  // May wait for the catalog. If that can't be written the note is lost: the next reader of the
  // segment takes it again.
  void Quarantine() ATTNDB_EXCLUDES(writing_, mutex_);

 private:
  Catalog* const catalog_;
  Mutex writing_;  // Held while notes go to the catalog.
  Mutex mutex_;
  std::map<SegmentId, std::string> noted_ ATTNDB_GUARDED_BY(mutex_);
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_DAMAGE_REPORTS_H_
