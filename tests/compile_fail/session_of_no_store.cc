// Sessions are made by a DB: there is none without a model and a store.
// Error: no matching
#include "attndb/db.h"

uint64_t NumTokens(const attndb::SessionStart& start) {
#ifdef ATTNDB_MISUSE
  const attndb::Session session;
#else
  const attndb::Session& session = start.session;
#endif
  return session.num_tokens();
}
