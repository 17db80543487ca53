// Steps that change contexts and segments, shared by the catalog's transactions.
//
// Errors:  those of SQLite and of the prefix index; the functions list further ones.
// Threads: as the connection, inside the caller's transaction.
#ifndef ATTNDB_STORE_CATALOG_CONTEXT_CHANGES_H_
#define ATTNDB_STORE_CATALOG_CONTEXT_CHANGES_H_

#include <span>
#include <vector>

#include "attndb/result.h"
#include "store/catalog/catalog_rows.h"

namespace attndb::store {

// Returns the segment. Errors: kFailedPrecondition (it is gone or quarantined: says so).
Result<SegmentRecord> RequireGoodSegment(SqliteDatabase* database, SegmentId id);
// Returns the link's segment. Errors: kFailedPrecondition (the segment is gone, or tokens that the
// link uses are damaged: says so).
Result<SegmentRecord> RequireSoundTokens(SqliteDatabase* database, const ChainLink& link);

// Inserts the row of the segment, without rows of companions.
Status InsertSegment(SqliteDatabase* database, const SegmentRecord& segment);

// Makes `chain` the context's chain.
Status StoreChain(SqliteDatabase* database, ContextId context, std::span<const ChainLink> chain);

// The contexts that use the segment, newest first.
Result<std::vector<ContextRow>> ContextsWithSegment(SqliteDatabase* database, SegmentId segment);

// Removes row, chain and index entries; appends the segments of its chain to `released`.
Status DropContext(SqliteDatabase* database, const ContextRow& context,
                   std::vector<SegmentId>* released);

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CATALOG_CONTEXT_CHANGES_H_
