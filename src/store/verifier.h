// Reads every stored byte again. Quarantines damaged segments, and returns quarantined segments to
// service if their bytes are right again.
//
// Threads: thread-safe; it keeps no state.
#ifndef ATTNDB_STORE_VERIFIER_H_
#define ATTNDB_STORE_VERIFIER_H_

#include <string>
#include <vector>

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
    derived::Store* objects;  // Is told about objects that can't be read.
  };

  explicit Verifier(const Parts& parts) : parts_(parts) {}

  // The reader of report entries that belong to no tenant.
  enum class Scope {
    kTenant,  // A tenant is told that the catalog is damaged, but none of its rows.
    kStore,   // The store's owner is told all.
  };

  // Errors: as DB::Verify.
  Result<VerifyReport> Verify(const std::string& tenant, Scope scope, const VerifyOptions& options);
  // Reads one segment, and appends its damage to the report.
  Status VerifySegment(const SegmentRecord& record, VerifyReport* report);

 private:
  static void ReportCatalog(const std::vector<std::string>& findings, Scope scope,
                            VerifyReport* report);
  Status ReportAside(VerifyReport* report) const;
  Status VerifyObject(const SegmentRecord& segment, const CompanionRecord& object,
                      VerifyReport* report);

  const Parts parts_;
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_VERIFIER_H_
