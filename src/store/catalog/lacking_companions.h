// Finds segments that lack a companion although they are long enough. The result is kept in memory,
// so that a second query needs no walk over all segments.
//
// It is a TEMP table of the writer's connection, which triggers keep up to date; a rollback also
// rolls it back. The first query for a kind takes one walk, usually when the store is opened.
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

// Creates the tables of a connection that may write.
Status WatchCompanions(SqliteDatabase* database);

// Starts to watch for segments that lack this companion. The first call takes a walk, later calls
// nothing. Runs in its own transaction.
Status WatchFor(SqliteDatabase* database, const MissingCompanions& missing);

// Oldest first; of one tenant, or of all with kNone. REQUIRES: WatchFor.
Result<std::vector<SegmentId>> WatchedSegmentsWithout(SqliteDatabase* database, TenantId tenant,
                                                      const MissingCompanions& missing);

// Does the same by a walk over all segments, for a connection that may not write.
Result<std::vector<SegmentId>> FindSegmentsWithout(SqliteDatabase* database, TenantId tenant,
                                                   const MissingCompanions& missing);

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CATALOG_LACKING_COMPANIONS_H_
