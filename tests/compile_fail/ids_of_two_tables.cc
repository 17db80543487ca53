// Ids of the catalog's tables do not stand for each other.
// Error: cannot convert|cannot initialize|no viable conversion
#include "store/catalog/catalog_types.h"

attndb::store::ModelId ModelOf(attndb::store::TenantId tenant, attndb::store::ModelId model) {
#ifdef ATTNDB_MISUSE
  const attndb::store::ModelId found = tenant;
#else
  const attndb::store::ModelId found =
      tenant == attndb::store::TenantId::kNone ? attndb::store::ModelId::kNone : model;
#endif
  return found;
}
