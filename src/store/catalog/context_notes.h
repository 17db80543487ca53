// A context's title and note, which Store is given, and the context that it continues, which Store
// finds out. A context without a row has none.
//
// Errors:  those of SQLite. A title that CheckContextTitle refuses, and a note that is too long,
//          count as none: Verify reports them, and the context is served.
// Threads: as the connection.
// Source:  docs/formats/catalog.md, "context_titles", "context_notes", "continuations".
#ifndef ATTNDB_STORE_CATALOG_CONTEXT_NOTES_H_
#define ATTNDB_STORE_CATALOG_CONTEXT_NOTES_H_

#include <string>
#include <string_view>

#include "attndb/result.h"
#include "attndb/types.h"
#include "common/context_number.h"
#include "store/catalog/sqlite.h"

namespace attndb::store {

// Errors: kInvalidArgument: no title and note that StoreOptions takes.
Status CheckTitleAndNote(std::string_view title, std::string_view note);

// In the caller's transaction, as are all that change rows. Takes the place of what the context
// had; what is empty leaves it as it is.
Status SetTitleAndNote(SqliteDatabase* database, ContextId context, std::string_view title,
                       std::string_view note);
// Gives `to` the title and the note of `from`, if it has none of its own.
Status TakeTitleAndNote(SqliteDatabase* database, ContextId to, ContextId from);
// `context` continues `earlier`, all of whose tokens it has.
Status SetContinued(SqliteDatabase* database, ContextId context, ContextId earlier);
// The contexts that continue `context`, which is about to go or to grow, continue the context that
// it continues instead.
Status PassOnContinued(SqliteDatabase* database, ContextId context);

// "" = none.
Result<std::string> TitleOfContext(SqliteDatabase* database, ContextId context);
// "" = none. Reads all of the note.
Result<std::string> NoteOfContext(SqliteDatabase* database, ContextId context);
// The number of the context that `context` continues; kNone = none.
Result<ContextNumber> ContinuedBy(SqliteDatabase* database, ContextId context);

// For a catalog of an older version, which has none.
Status ViewNoNotes(SqliteDatabase* database);

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CATALOG_CONTEXT_NOTES_H_
