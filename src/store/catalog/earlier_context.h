// The context that a new one continues where no base says it: of all contexts whose tokens the new
// one begins with, that with the most tokens, and of these the newest.
//
// A follow-up may be stored by a session that went on from nothing: one that ran its prompt again,
// or whose beginning was not stored yet when the session was made. A second follow-up of one turn
// shares the most tokens with the first follow-up: its session begins there, and continues the
// turn.
//
// Cost:    a read of each block that was there before the new context, up to the end of the context
//          that it continues, and more only where paths part.
// Errors:  those of SQLite; kCorruption (a node that is not there).
// Threads: as the connection.
#ifndef ATTNDB_STORE_CATALOG_EARLIER_CONTEXT_H_
#define ATTNDB_STORE_CATALOG_EARLIER_CONTEXT_H_

#include "attndb/result.h"
#include "attndb/types.h"
#include "store/catalog/prefix_index.h"
#include "store/catalog/sqlite.h"

namespace attndb::store {

// `first_new`: the first node on the path of `context` that it alone has, or where it ends. The
// path has no cuts. kNone: there is no such context.
Result<ContextId> EarlierContext(SqliteDatabase* database, const PrefixIndex& index,
                                 NodeId first_new, ContextId context);

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CATALOG_EARLIER_CONTEXT_H_
