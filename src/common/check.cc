#include "common/check.h"

#include <cstdio>
#include <cstdlib>

namespace attndb::internal {

void CheckFailed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "attndb: %s:%d: check failed: %s\n", file, line, condition);
  std::abort();
}

}  // namespace attndb::internal
