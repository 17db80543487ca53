// Contexts that have lost a part of what they hold get it back from a context that is published: it
// has the same tokens there, computed by the same model.
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

// What is published, and whole.
struct Mend {
  TenantId tenant = TenantId::kNone;
  ModelId model = ModelId::kNone;
  int64_t first_position = 0;
  std::span<const TokenId> tokens;
  std::span<const Cut> cuts;
  std::span<const ChainLink> chain;
};

// Gives the tenant's damaged contexts the first links of the chain in the place of their own, up to
// the end of their last damaged one, where they have the same tokens and cuts up to there. They are
// served again. Appends the segments that they had to `released`.
// Cost: nothing where the tenant has no damaged segment; else a walk over the tenant's segments.
Status MendContexts(SqliteDatabase* database, const Mend& mend, std::vector<SegmentId>* released);

// The first links, which hold so many tokens; the last one may be used for fewer then.
std::vector<ChainLink> FirstLinks(std::span<const ChainLink> chain, uint64_t num_tokens);

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CATALOG_MENDING_H_
