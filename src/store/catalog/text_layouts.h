// The text layouts of contexts. Store keeps the layout that it is given. A context without a row
// has an unknown layout.
//
// Errors:  those of SQLite. A row that TextLayout refuses counts as unknown: Verify reports it, and
//          the context is served.
// Threads: as the connection.
// Source:  docs/formats/catalog.md, "text_layouts".
#ifndef ATTNDB_STORE_CATALOG_TEXT_LAYOUTS_H_
#define ATTNDB_STORE_CATALOG_TEXT_LAYOUTS_H_

#include <cstdint>

#include "attndb/result.h"
#include "attndb/types.h"
#include "store/catalog/sqlite.h"

namespace attndb::store {

// Runs in the caller's transaction. Replaces the context's layout.
Status NoteTextLayout(SqliteDatabase* database, ContextId context, const TextLayout& text);

Result<TextLayout> LayoutOfText(SqliteDatabase* database, ContextId context, uint64_t num_tokens);

// For a catalog of an older version, which has no layouts.
Status ViewNoLayouts(SqliteDatabase* database);

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CATALOG_TEXT_LAYOUTS_H_
