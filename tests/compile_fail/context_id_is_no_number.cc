// A context's id does not mix with counts and token ids.
// Error: cannot convert|cannot initialize
#include <cstdint>

#include "attndb/session.h"

int64_t IdOf(const attndb::Session& session) {
#ifdef ATTNDB_MISUSE
  const int64_t id = session.context_id();
#else
  const auto id = static_cast<int64_t>(session.context_id());
#endif
  return id;
}
