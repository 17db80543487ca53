// The numbers by which each tenant knows its contexts and segments: from 1, none used twice,
// whatever other tenants store.
//
// Errors:  those of SQLite; also kCorruption (the tenant has no next number, or one that can't be).
// Threads: as the connection, inside the caller's transaction.
// Source:  docs/formats/catalog.md, section 3.
#ifndef ATTNDB_STORE_CATALOG_TENANT_NUMBERS_H_
#define ATTNDB_STORE_CATALOG_TENANT_NUMBERS_H_

#include "attndb/result.h"
#include "attndb/status.h"
#include "store/catalog/catalog_types.h"
#include "store/catalog/sqlite.h"

namespace attndb::store {

// Begins to count for a tenant. Does nothing if that was done.
Status BeginNumbers(SqliteDatabase* database, TenantId tenant);

// Gives the tenant's next number to a context, or a segment, that has its row and no number.
Result<ContextNumber> NumberContext(SqliteDatabase* database, TenantId tenant, ContextId context);
Status NumberSegment(SqliteDatabase* database, TenantId tenant, SegmentId segment);

// Fills the tables, which are empty: each context and segment keeps its id as its number, which its
// tenant may have written down, and each tenant goes on behind its largest.
Status NumberAllById(SqliteDatabase* database);

// For a reader of a catalog of a version without: the views give ids as numbers.
Status ViewIdsAsNumbers(SqliteDatabase* database);

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CATALOG_TENANT_NUMBERS_H_
