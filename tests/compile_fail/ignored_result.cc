// What was stored is durable only if Store says so.
// Error: ignoring return
#include <span>

#include "attndb/db.h"

bool StoreAll(const attndb::DB& db, attndb::Session& session,
              std::span<const attndb::TokenId> tokens) {
#ifdef ATTNDB_MISUSE
  db.Store(session, tokens);
#endif
  return db.Store(session, tokens).ok();
}
