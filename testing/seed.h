// Seeds of random tests: printed by every test that draws one, set again to replay a failure.
//
//   ATTNDB_SEED=17 ctest -R storage_test
//
// Threads: thread-safe.
#ifndef ATTNDB_TESTING_SEED_H_
#define ATTNDB_TESTING_SEED_H_

#include <cstdint>

namespace attndb::test {

// ATTNDB_SEED if it is set, else the test's own; recorded in the test's output.
uint64_t SeedOr(uint64_t default_seed);

}  // namespace attndb::test

#endif  // ATTNDB_TESTING_SEED_H_
