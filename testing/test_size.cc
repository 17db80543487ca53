#include "testing/test_size.h"

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "common/check.h"

namespace attndb::test {

bool IsLongRun() {
  const char* const value = std::getenv("ATTNDB_TEST_SIZE");
  const std::string_view size = value == nullptr ? "" : value;
  ATTNDB_CHECK(size.empty() || size == "short" || size == "long");
  return size == "long";
}

uint64_t Sized(uint64_t short_size, uint64_t long_size) {
  return IsLongRun() ? long_size : short_size;
}

void PrintCount(uint64_t count, std::string_view what) {
  std::printf("ATTNDB_COUNT %llu %.*s\n", static_cast<unsigned long long>(count),
              static_cast<int>(what.size()), what.data());
  std::fflush(stdout);
}

}  // namespace attndb::test
