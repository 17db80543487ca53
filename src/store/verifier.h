// Every byte of what is stored is read again: damage is quarantined, and what was and is as it was
// written is served again.
//
// Threads: thread-safe; it keeps no state.
#ifndef ATTNDB_STORE_VERIFIER_H_
#define ATTNDB_STORE_VERIFIER_H_

#include <string>

#include "attndb/options.h"
#include "attndb/result.h"
#include "attndb/stats.h"
#include "derived/object_files.h"
#include "derived/store.h"
#include "store/catalog/catalog.h"
#include "store/damage_reports.h"
#include "store/settings.h"

namespace attndb::store {

class Verifier {
 public:
  // All must outlive it.
  struct Parts {
    const Settings* settings;
    Catalog* catalog;
    DamageReports* damage;
    const derived::ObjectFiles* object_files;
    derived::Store* objects;  // Told of objects that can't be read.
  };

  explicit Verifier(const Parts& parts) : parts_(parts) {}

  // Errors: as DB::Verify.
  Result<VerifyReport> Verify(const std::string& tenant, const VerifyOptions& options);
  // Reads one segment, and appends what is wrong with it to the report.
  Status VerifySegment(const SegmentRecord& record, VerifyReport* report);

 private:
  Status ReportAside(VerifyReport* report) const;
  Status VerifyObject(const SegmentRecord& segment, const CompanionRecord& object,
                      VerifyReport* report);

  const Parts parts_;
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_VERIFIER_H_
