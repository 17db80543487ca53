// Counters, kept in tables beside chains, segments and contexts. They replace walks over these.
//
//   segment_uses   of each segment: contexts that have it, changes of the chains that have it, and
//                  how many of these changes Compact has seen
//   tenant_uses    of each tenant: contexts, segments and companions, and their bytes
//
// Triggers of the writer's own connection change the counters in the transaction that changes the
// rows: no statement can forget them. The file holds no trigger; a trigger that somebody put into
// the file never runs (sqlite.h). Verify counts again.
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

// Prepares a connection that may write. Its later statements keep the counters.
// REQUIRES: the catalog has the tables.
Status KeepCounters(SqliteDatabase* database);

// Fills the tables, which are empty, from all rows. Inside the caller's transaction.
Status CountAfresh(SqliteDatabase* database);

// For a read-only catalog without counters (version 2 or older): makes views in place of the
// tables. The views count at each query.
Status ViewAsCounters(SqliteDatabase* database);

// The uses of a segment by its contexts.
struct SegmentUses {
  uint64_t num_tokens_kept = 0;  // The most tokens that any of these contexts uses.
  uint32_t num_contexts = 0;
};
// O(log of all). Errors: also kCorruption (the segment has no counters).
Result<SegmentUses> LoadSegmentUses(SqliteDatabase* database, SegmentId segment);

// The bytes of notes count, too (context_notes.h).
// O(log of all). Errors: also kCorruption (a counter has an impossible value).
Result<CatalogStats> LoadTenantUses(SqliteDatabase* database, TenantId tenant);

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CATALOG_COUNTERS_H_
