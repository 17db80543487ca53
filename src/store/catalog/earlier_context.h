// Finds the context that a new context continues if no base names it. Of all contexts that are a
// beginning of the new one, it is the one with the most tokens; of several, the newest.
//
// A session that started from nothing may store a follow-up: it ran the prompt again, or the
// beginning was not stored yet when the session was made. A second follow-up of one turn shares the
// most tokens with the first follow-up. Its session begins there, and continues the turn.
//
// Cost:    reads each older block up to the end of the continued context; more only where paths
//          part.
// Errors:  those of SQLite; kCorruption (a missing node).
// Threads: as the connection.
#ifndef ATTNDB_STORE_CATALOG_EARLIER_CONTEXT_H_
#define ATTNDB_STORE_CATALOG_EARLIER_CONTEXT_H_

#include "attndb/result.h"
#include "attndb/types.h"
#include "store/catalog/prefix_index.h"
#include "store/catalog/sqlite.h"

namespace attndb::store {

// `first_new`: the first node that only the path of `context` has, or its end. The path has no
// cuts. Returns kNone if there is no such context.
Result<ContextId> EarlierContext(SqliteDatabase* database, const PrefixIndex& index,
                                 NodeId first_new, ContextId context);

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CATALOG_EARLIER_CONTEXT_H_
