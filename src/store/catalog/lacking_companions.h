// Which segments lack a companion that all of a length are to have: kept in memory, so that asking
// again takes no walk over all segments.
//
// A TEMP table of the writer's connection, which its triggers keep: a rollback takes it along. What
// it is asked for first is found by one walk, of the open usually.
//
// Errors:  those of SQLite.
// Threads: as the connection.
#ifndef ATTNDB_STORE_CATALOG_LACKING_COMPANIONS_H_
#define ATTNDB_STORE_CATALOG_LACKING_COMPANIONS_H_

#include <vector>

#include "attndb/result.h"
#include "attndb/status.h"
#include "store/catalog/catalog_types.h"
#include "store/catalog/sqlite.h"

namespace attndb::store {

// Makes the tables of a connection that may write.
Status WatchCompanions(SqliteDatabase* database);

// From here on segments that lack it are known. Costs a walk the first time, and nothing then. In a
// transaction of its own.
Status WatchFor(SqliteDatabase* database, const MissingCompanions& missing);

// Oldest first; of one tenant, or of all with kNone. REQUIRES: WatchFor.
Result<std::vector<SegmentId>> WatchedSegmentsWithout(SqliteDatabase* database, TenantId tenant,
                                                      const MissingCompanions& missing);

// The same by a walk over all segments, for a connection that may not write.
Result<std::vector<SegmentId>> FindSegmentsWithout(SqliteDatabase* database, TenantId tenant,
                                                   const MissingCompanions& missing);

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CATALOG_LACKING_COMPANIONS_H_
