#include "testing/seed.h"

#include <cstdio>
#include <cstdlib>

namespace attndb::test {

uint64_t SeedOr(uint64_t default_seed) {
  const char* text = std::getenv("ATTNDB_SEED");
  const uint64_t seed = text == nullptr ? default_seed : std::strtoull(text, nullptr, 0);
  std::printf("ATTNDB_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

}  // namespace attndb::test
