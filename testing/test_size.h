// How much a test does: as little as shows the behaviour, or the size that proves it.
//
//   make test         ATTNDB_TEST_SIZE unset: short. The same programs and assertions, smaller.
//   make test-long    ATTNDB_TEST_SIZE=long
//
// Errors:  any other value ends the process: a long run that is none must not look like one.
// Threads: thread-safe.
// Python:  python/tests/hf/sizes.py.
#ifndef ATTNDB_TESTING_TEST_SIZE_H_
#define ATTNDB_TESTING_TEST_SIZE_H_

#include <cstdint>
#include <string_view>

namespace attndb::test {

bool IsLongRun();

// The size that this run has.
uint64_t Sized(uint64_t short_size, uint64_t long_size);

// Prints what a test has done as a line of its own, "ATTNDB_COUNT 200 kills". Those of long runs
// get into the table of docs/testing.md (scripts/test_long.sh).
void PrintCount(uint64_t count, std::string_view what);

}  // namespace attndb::test

#endif  // ATTNDB_TESTING_TEST_SIZE_H_
