// Helpers for tests of all forms on disk: they expect that wrong fields, and bytes that are cut
// short, are refused with a message.
//
// Threads: stateless.
#ifndef ATTNDB_INDEX_FORMAT_TEST_UTIL_H_
#define ATTNDB_INDEX_FORMAT_TEST_UTIL_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <span>
#include <string>

#include "attndb/status.h"

namespace attndb::test {

// Expects that `parse`, which returns a Status, refuses bytes that have `value` at `field`, with a
// message that begins with `message`. The bytes are afterwards as before.
template <typename T, typename Parse>
void ExpectFieldRefused(std::byte* field, T value, const Parse& parse, StatusCode code,
                        const std::string& message) {
  T before;
  std::memcpy(&before, field, sizeof(T));
  std::memcpy(field, &value, sizeof(T));
  const Status status = parse();
  EXPECT_EQ(status.code(), code) << message;
  EXPECT_THAT(status.message(), ::testing::StartsWith(message));
  std::memcpy(field, &before, sizeof(T));
}

// Expects that `parse` refuses each prefix of the bytes, of every length up to 200 and of every
// step-th above.
template <typename Parse>
void ExpectCutsRefused(std::span<const std::byte> bytes, size_t step, const Parse& parse) {
  for (size_t size = 0; size < bytes.size(); size += size < 200 ? 1 : step) {
    const Status status = parse(bytes.first(size));
    EXPECT_EQ(status.code(), StatusCode::kCorruption) << size;
  }
}

}  // namespace attndb::test

#endif  // ATTNDB_INDEX_FORMAT_TEST_UTIL_H_
