// Counters that spare a walk over chains, segments or contexts, kept in tables beside them.
//
//   segment_uses   of each segment: contexts that have it, changes of the chains that have it, and
//                  how many of these Compact has seen
//   tenant_uses    of each tenant: contexts, segments and companions, and their bytes
//
// They change in the transaction that changes the rows, by triggers of the writer's own connection:
// no statement can forget them. The file holds no trigger, and one that somebody put there never
// runs (sqlite.h). Verify counts again.
//
// Errors:  those of SQLite.
// Threads: as the connection.
// Source:  docs/formats/catalog.md, section 3.
#ifndef ATTNDB_STORE_CATALOG_COUNTERS_H_
#define ATTNDB_STORE_CATALOG_COUNTERS_H_

#include <cstdint>

#include "attndb/result.h"
#include "attndb/status.h"
#include "store/catalog/catalog_types.h"
#include "store/catalog/sqlite.h"

namespace attndb::store {

// Prepares a connection that may write: from here on its statements keep the counters.
// REQUIRES: the catalog has the tables.
Status KeepCounters(SqliteDatabase* database);

// Fills the tables, which are empty, from all rows. Inside the caller's transaction.
Status CountAfresh(SqliteDatabase* database);

// For a catalog without counters (version 2 or older) that is only read: makes views in the place
// of the tables, which count whenever they are queried.
Status ViewAsCounters(SqliteDatabase* database);

// How the contexts that have a segment use it.
struct SegmentUses {
  uint64_t num_tokens_kept = 0;  // The most tokens that any of these contexts uses.
  uint32_t num_contexts = 0;
};
// O(log of all). Errors: also kCorruption (the segment has no counters).
Result<SegmentUses> LoadSegmentUses(SqliteDatabase* database, SegmentId segment);

// O(log of all). Errors: also kCorruption (a counter can't be).
Result<CatalogStats> LoadTenantUses(SqliteDatabase* database, TenantId tenant);

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CATALOG_COUNTERS_H_
