#include "store/catalog/catalog.h"

#include "store/catalog/counters.h"
#include "store/catalog/schema.h"

namespace attndb::store {

uint32_t Catalog::format_version() { return static_cast<uint32_t>(kSchemaVersion); }

Result<std::unique_ptr<Catalog>> Catalog::Open(const CatalogOptions& options) {
  auto catalog = std::make_unique<Catalog>(options);
  ATTNDB_RETURN_IF_ERROR(catalog->core_.Open());
  return catalog;
}

Result<CatalogStats> Catalog::Stats(TenantId tenant) const {
  MutexLock lock(core_.mutex());
  ATTNDB_ASSIGN_OR_RETURN(const Transaction transaction, core_.BeginRead());
  return LoadTenantUses(core_.database(), tenant);
}

}  // namespace attndb::store
