// The title and the note of a context, which Store is given, and the context that it continues,
// which Store finds out. A context without a row has none of them.
//
// The bytes of notes count towards the tenant's quota. A TEMP table of the writer's connection has
// their sum for each tenant. TEMP triggers change it with the rows, as in counters.h; the file has
// neither.
//
// Errors:  those of SQLite. A title that CheckContextTitle refuses, and a note that is too long,
//          count as none: Verify reports them, and the context is served.
// Threads: as the connection.
// Source:  docs/formats/catalog.md, "context_titles", "context_notes", "continuations".
#ifndef ATTNDB_STORE_CATALOG_CONTEXT_NOTES_H_
#define ATTNDB_STORE_CATALOG_CONTEXT_NOTES_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "attndb/result.h"
#include "attndb/types.h"
#include "common/context_number.h"
#include "store/catalog/catalog_types.h"
#include "store/catalog/sqlite.h"

namespace attndb::store {

// Errors: kInvalidArgument (StoreOptions does not take this title or note).
Status CheckTitleAndNote(std::string_view title, std::string_view note);

// Runs in the caller's transaction, like all functions that change rows. Replaces the title and
// note of the context; an empty argument changes nothing.
Status SetTitleAndNote(SqliteDatabase* database, ContextId context, std::string_view title,
                       std::string_view note);
// Gives `to` the title and the note of `from`, if it has none of its own.
Status TakeTitleAndNote(SqliteDatabase* database, ContextId to, ContextId from);
// `context` continues `earlier`, all of whose tokens it has.
Status SetContinued(SqliteDatabase* database, ContextId context, ContextId earlier);
// `context` is about to be dropped or to grow. The contexts that continue it continue its
// predecessor instead.
Status PassOnContinued(SqliteDatabase* database, ContextId context);

// "" = none.
Result<std::string> TitleOfContext(SqliteDatabase* database, ContextId context);
// "" = none. Reads all of the note.
Result<std::string> NoteOfContext(SqliteDatabase* database, ContextId context);
// The number of bytes of the note. Does not read the note.
Result<uint64_t> NoteBytesOfContext(SqliteDatabase* database, ContextId context);
// The number of the context that `context` continues; kNone = none.
Result<ContextNumber> ContinuedBy(SqliteDatabase* database, ContextId context);

// Prepares a connection that may write: counts the bytes of all notes, and keeps the sums. If the
// rows are damaged, the notes that are there count nothing: Verify reports the damage.
Status KeepNoteBytes(SqliteDatabase* database);
// For a read-only connection, whose NoteBytesOfTenant counts at each call.
Status ViewNoteBytes(SqliteDatabase* database);
// The bytes of all notes of the tenant's contexts. O(log of all) for a writer.
Result<uint64_t> NoteBytesOfTenant(SqliteDatabase* database, TenantId tenant);

// For a catalog of an older version, which has no notes.
Status ViewNoNotes(SqliteDatabase* database);

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CATALOG_CONTEXT_NOTES_H_
