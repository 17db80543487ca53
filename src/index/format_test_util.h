// What tests of all forms on disk share: fields that are not as they must be, and bytes that are
// cut short, are refused in words.
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

// `parse`, which returns a Status, refuses bytes that have `value` at `field`; a message begins
// with `message`. The bytes are as before then.
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

// `parse` refuses the first bytes alone, of each length up to 200 and of every step-th above it.
template <typename Parse>
void ExpectCutsRefused(std::span<const std::byte> bytes, size_t step, const Parse& parse) {
  for (size_t size = 0; size < bytes.size(); size += size < 200 ? 1 : step) {
    const Status status = parse(bytes.first(size));
    EXPECT_EQ(status.code(), StatusCode::kCorruption) << size;
  }
}

}  // namespace attndb::test

#endif  // ATTNDB_INDEX_FORMAT_TEST_UTIL_H_
