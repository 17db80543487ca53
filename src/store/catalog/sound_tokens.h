// How much of a damaged segment is whole: its first tokens, by number. A context that uses no more
// of it is served.
//
// Errors:  those of SQLite and of the prefix index.
// Threads: as the connection, inside the caller's transaction.
#ifndef ATTNDB_STORE_CATALOG_SOUND_TOKENS_H_
#define ATTNDB_STORE_CATALOG_SOUND_TOKENS_H_

#include <cstdint>
#include <vector>

#include "attndb/result.h"
#include "attndb/status.h"
#include "store/catalog/catalog_rows.h"

namespace attndb::store {

// Whether a context uses tokens of a damaged segment that are not whole; `id` is an SQL expression.
#define ATTNDB_IS_HARMED(id)                                           \
  "EXISTS(SELECT 1 FROM chain c JOIN segments s ON s.id = c.segment "  \
  "LEFT JOIN sound_tokens t ON t.segment = s.id WHERE c.context = " id \
  " AND s.damage IS NOT NULL AND c.num_tokens_used > coalesce(t.num_tokens, 0))"

// Number of the segment's first tokens that are whole. REQUIRES: it is damaged.
Result<uint64_t> LoadNumSound(SqliteDatabase* database, SegmentId segment);
Status SetNumSound(SqliteDatabase* database, SegmentId segment, uint64_t num_tokens);

// Takes the segment's contexts that are harmed out of service, and takes those back into it that
// are not any more. Returns the harmed ones, oldest first.
Result<std::vector<ContextRecord>> JudgeContexts(SqliteDatabase* database, SegmentId segment);

// For a reader of a catalog of a version without: as if no damaged segment had a whole token.
Status ViewAsSoundTokens(SqliteDatabase* database);

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CATALOG_SOUND_TOKENS_H_
