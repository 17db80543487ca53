// GoogleTest matchers for Status and Result.
//
//   EXPECT_THAT(db.List(), IsOk());
//   EXPECT_THAT(segment.status(), FailsWith(StatusCode::kCorruption, HasSubstr("granule")));
//
// Threads: as GoogleTest.
#ifndef ATTNDB_TESTING_MATCHERS_H_
#define ATTNDB_TESTING_MATCHERS_H_

#include <gmock/gmock.h>

#include <string>

#include "attndb/result.h"
#include "attndb/status.h"

namespace attndb::test {

inline const Status& StatusOf(const Status& status) { return status; }
template <typename T>
const Status& StatusOf(const Result<T>& result) {
  return result.status();
}

MATCHER(IsOk, "is ok") {
  *result_listener << StatusOf(arg).ToString();
  return StatusOf(arg).ok();
}

// Matches the code, and a message: errors must name the object, expected and found.
MATCHER_P2(FailsWith, code, message,
           std::string("is ") + std::string(StatusCodeName(code)) + " with a message that " +
               ::testing::DescribeMatcher<std::string>(message)) {
  *result_listener << StatusOf(arg).ToString();
  return StatusOf(arg).code() == code &&
         ::testing::ExplainMatchResult(message, StatusOf(arg).message(), result_listener);
}

}  // namespace attndb::test

#define ATTNDB_ASSERT_OK(expr) ASSERT_THAT((expr), ::attndb::test::IsOk())
#define ATTNDB_EXPECT_OK(expr) EXPECT_THAT((expr), ::attndb::test::IsOk())

// Sets `decl` to the value of `expr`, a Result, or fails the test.
#define ATTNDB_ASSERT_OK_AND_ASSIGN(decl, expr) \
  ATTNDB_ASSERT_OK_AND_ASSIGN_IMPL_(ATTNDB_CONCAT_(attndb_result_, __LINE__), decl, expr)
#define ATTNDB_ASSERT_OK_AND_ASSIGN_IMPL_(result, decl, expr) \
  auto result = (expr);                                       \
  ASSERT_THAT(result, ::attndb::test::IsOk());                \
  decl = *std::move(result)

#endif  // ATTNDB_TESTING_MATCHERS_H_
