// Ids of the catalog's tables do not stand for each other.
// Error: cannot convert|cannot initialize|no viable conversion
#include "db/catalog/catalog_types.h"

attndb::db::ModelId ModelOf(attndb::db::TenantId tenant, attndb::db::ModelId model) {
#ifdef ATTNDB_MISUSE
  const attndb::db::ModelId found = tenant;
#else
  const attndb::db::ModelId found =
      tenant == attndb::db::TenantId::kNone ? attndb::db::ModelId::kNone : model;
#endif
  return found;
}
