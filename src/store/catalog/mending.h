// Mends contexts that have lost a part of their tokens: a newly published context has the same
// tokens there, computed by the same model.
//
// Errors:  those of SQLite and of the prefix index.
// Threads: as the connection, inside the caller's transaction.
#ifndef ATTNDB_STORE_CATALOG_MENDING_H_
#define ATTNDB_STORE_CATALOG_MENDING_H_

#include <span>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"
#include "store/catalog/catalog_rows.h"

namespace attndb::store {

// The published, sound context.
struct Mend {
  TenantId tenant = TenantId::kNone;
  ModelId model = ModelId::kNone;
  int64_t first_position = 0;
  std::span<const TokenId> tokens;
  std::span<const Cut> cuts;
  std::span<const ChainLink> chain;
};

// Replaces the first links of the tenant's damaged contexts, up to the end of their last damaged
// link, by the chain's first links. Only if they have the same tokens and cuts up to there. The
// contexts are served again. Appends their old segments to `released`.
// Cost: nothing if the tenant has no damaged segment; else a walk over the tenant's segments.
Status MendContexts(SqliteDatabase* database, const Mend& mend, std::vector<SegmentId>* released);

// Returns the first links, which hold `num_tokens` tokens. The last one may use fewer tokens than
// in the chain.
std::vector<ChainLink> FirstLinks(std::span<const ChainLink> chain, uint64_t num_tokens);

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CATALOG_MENDING_H_
