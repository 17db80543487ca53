// `if (status)` would read as success to some and as failure to others.
// Error: could not convert|not contextually convertible
#include "attndb/status.h"

int ExitCode(const attndb::Status& status) {
#ifdef ATTNDB_MISUSE
  if (status) return 0;
#else
  if (status.ok()) return 0;
#endif
  return 1;
}
