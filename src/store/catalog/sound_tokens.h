// The number of a damaged segment's first tokens that are sound. A context that uses no other
// tokens of the segment is served.
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

// Whether a context uses damaged tokens of a segment; `id` is an SQL expression.
#define ATTNDB_IS_HARMED(id)                                           \
  "EXISTS(SELECT 1 FROM chain c JOIN segments s ON s.id = c.segment "  \
  "LEFT JOIN sound_tokens t ON t.segment = s.id WHERE c.context = " id \
  " AND s.damage IS NOT NULL AND c.num_tokens_used > coalesce(t.num_tokens, 0))"

// The number of the segment's first sound tokens. REQUIRES: the segment is damaged.
Result<uint64_t> LoadNumSound(SqliteDatabase* database, SegmentId segment);
Status SetNumSound(SqliteDatabase* database, SegmentId segment, uint64_t num_tokens);

// Takes harmed contexts of the segment out of service, and returns contexts that are no longer
// harmed to service. Returns the harmed ones, oldest first.
Result<std::vector<ContextRecord>> JudgeContexts(SqliteDatabase* database, SegmentId segment);

// For a reader of an older catalog without the table: no damaged segment has a sound token.
Status ViewAsSoundTokens(SqliteDatabase* database);

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CATALOG_SOUND_TOKENS_H_
