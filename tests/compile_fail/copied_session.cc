// A session is one request: a second one is asked for by Fork, which may fail.
// Error: deleted
#include <utility>

#include "attndb/session.h"

attndb::Session Another(attndb::Session& session) {
#ifdef ATTNDB_MISUSE
  attndb::Session copy = session;
#else
  attndb::Session copy = std::move(session);
#endif
  return copy;
}
