// Lists the contexts of a store, and sets pins, times to live and quotas.
//
// Errors:  as the functions of DB with the same names.
// Threads: thread-safe; it keeps no state.
#ifndef ATTNDB_STORE_ADMIN_H_
#define ATTNDB_STORE_ADMIN_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "attndb/result.h"
#include "attndb/stats.h"
#include "attndb/types.h"
#include "derived/builder.h"
#include "store/catalog/catalog.h"
#include "store/damage_reports.h"
#include "store/settings.h"

namespace attndb::store {

class Admin {
 public:
  // All must outlive it.
  struct Parts {
    const Settings* settings;
    Catalog* catalog;
    DamageReports* damage;
    const derived::Builder* builder;
  };

  explicit Admin(const Parts& parts) : parts_(parts) {}

  Result<std::vector<ContextInfo>> List(const std::string& tenant) const;
  Result<ContextInfo> Describe(const std::string& tenant, std::string_view context) const;
  Result<std::string> Note(const std::string& tenant, std::string_view context) const;
  Status Pin(const std::string& tenant, std::string_view context, bool pinned);
  Status SetTtl(const std::string& tenant, std::string_view context,
                std::optional<std::chrono::seconds> ttl);
  Status SetQuota(const std::string& tenant, uint64_t bytes);
  Status DeclareEqual(const std::string& tenant, std::string_view fingerprint_a,
                      std::string_view fingerprint_b);
  Status RevokeEqual(const std::string& tenant, std::string_view fingerprint_a,
                     std::string_view fingerprint_b);

 private:
  // With the name and the files that the tenant knows the model by.
  Result<ModelSpec> ModelOf(TenantId tenant, ModelId model) const;
  // Checks the files of the context's segments. If files are missing, marks the segments and the
  // context as damaged.
  Status NoteLostFiles(ContextDetail* detail) const;
  // `spec` is the spec of the context's model.
  ContextInfo InfoOf(const ContextDetail& detail, const ModelSpec& spec) const;

  const Parts parts_;
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_ADMIN_H_
