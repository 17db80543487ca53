// Every byte of what is stored is read again: damage is quarantined, and what was and is as it was
// written is served again.
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
    derived::Store* objects;  // Told of objects that can't be read.
  };

  explicit Verifier(const Parts& parts) : parts_(parts) {}

  // Whom the report of what is no tenant's own is for.
  enum class Scope {
    kTenant,  // Is told that the catalog is damaged, and no row of it.
    kStore,   // The store's owner.
  };

  // Errors: as DB::Verify.
  Result<VerifyReport> Verify(const std::string& tenant, Scope scope, const VerifyOptions& options);
  // Reads one segment, and appends what is wrong with it to the report.
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
