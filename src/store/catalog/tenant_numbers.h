// The numbers by which each tenant knows its contexts and segments: from 1, none used twice,
// independent of other tenants.
//
// Errors:  those of SQLite; also kCorruption (the tenant has no next number, or an impossible one).
// Threads: as the connection, inside the caller's transaction.
// Source:  docs/formats/catalog.md, section 3.
#ifndef ATTNDB_STORE_CATALOG_TENANT_NUMBERS_H_
#define ATTNDB_STORE_CATALOG_TENANT_NUMBERS_H_

#include <cstdint>

#include "attndb/result.h"
#include "attndb/status.h"
#include "store/catalog/catalog_types.h"
#include "store/catalog/sqlite.h"

namespace attndb::store {

// Far beyond any number that a catalog hands out, and far from where a sum would overflow.
inline constexpr int64_t kMaxNumber = int64_t{1} << 62;

// Begins to count for a tenant. Does nothing if counting has begun.
Status BeginNumbers(SqliteDatabase* database, TenantId tenant);

// Gives the tenant's next number to a context, or a segment, that has a row and no number.
Result<ContextNumber> NumberContext(SqliteDatabase* database, TenantId tenant, ContextId context);
Status NumberSegment(SqliteDatabase* database, TenantId tenant, SegmentId segment);

// Fills the empty tables. Each context and segment keeps its id as its number, because its tenant
// may have written the id down. Each tenant continues behind its largest number.
Status NumberAllById(SqliteDatabase* database);

// For a reader of an older catalog without the tables: the views return ids as numbers.
Status ViewIdsAsNumbers(SqliteDatabase* database);

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CATALOG_TENANT_NUMBERS_H_
