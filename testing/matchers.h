// GoogleTest matchers for Status and Result.
//
//   EXPECT_THAT(db.List(), IsOk());
//   EXPECT_THAT(segment.status(), FailsWith(StatusCode::kCorruption, HasSubstr("granule")));
//
// Cost:    GoogleMock instantiates some thirty templates for each type that a matcher meets,
//          and nearly every call has a Result type of its own. These two matchers therefore bring
//          their own test for EXPECT_THAT, which all types share. Tests compile in a tenth to a
//          fifth less time.
// Needs:   testing::internal::PredicateFormatterFromMatcher, which is no public interface of
//          GoogleTest. Tried with 1.12.1 (Debian 12).
// Threads: as GoogleTest.
#ifndef ATTNDB_TESTING_MATCHERS_H_
#define ATTNDB_TESTING_MATCHERS_H_

#include <gmock/gmock.h>

#include <ostream>
#include <sstream>
#include <string>
#include <utility>

#include "attndb/result.h"
#include "attndb/status.h"

namespace attndb::test {

inline const Status& StatusOf(const Status& status) { return status; }
template <typename T>
const Status& StatusOf(const Result<T>& result) {
  return result.status();
}

// Matches a Status, or a Result by its status.
class StatusMatcher {
 public:
  // Matches kOk.
  StatusMatcher() = default;
  // Matches an error's code and its message, which must name the object, expected and found.
  StatusMatcher(StatusCode code, ::testing::Matcher<const std::string&> message)
      : code_(code), message_(std::move(message)) {}

  // GoogleMock takes a class with this name as a matcher inside another: Not(IsOk()).
  using is_gtest_matcher = void;  // NOLINT(readability-identifier-naming)
  template <typename T>
  bool MatchAndExplain(const T& value, std::ostream* os) const {
    return Matches(StatusOf(value), os);
  }
  void DescribeTo(std::ostream* os) const {
    *os << "is " << StatusCodeName(code_);
    if (code_ == StatusCode::kOk) return;
    *os << " with a message that ";
    message_.DescribeTo(os);
  }
  void DescribeNegationTo(std::ostream* os) const {
    *os << "not (";
    DescribeTo(os);
    *os << ")";
  }

  bool Matches(const Status& status, std::ostream* os) const {
    if (os != nullptr) *os << status.ToString();
    return status.code() == code_ &&
           (code_ == StatusCode::kOk || message_.Matches(status.message()));
  }
  // Returns the result of EXPECT_THAT for `status`, the value of the expression `text`.
  ::testing::AssertionResult Judge(const char* text, const Status& status) const {
    if (Matches(status, nullptr)) return ::testing::AssertionSuccess();
    std::ostringstream expected;
    DescribeTo(&expected);
    return ::testing::AssertionFailure() << "Value of: " << text << "\nExpected: " << expected.str()
                                         << "\n  Actual: " << status.ToString();
  }

 private:
  StatusCode code_ = StatusCode::kOk;
  ::testing::Matcher<const std::string&> message_;
};

inline StatusMatcher IsOk() { return {}; }
// A success has no message: a code of kOk fails the test.
inline StatusMatcher FailsWith(StatusCode code, ::testing::Matcher<const std::string&> message) {
  if (code == StatusCode::kOk) ADD_FAILURE() << "FailsWith(kOk) matches no message; use IsOk()";
  return {code, std::move(message)};
}

}  // namespace attndb::test

// EXPECT_THAT uses this class. GoogleMock's own would be instantiated for each type.
template <>
class testing::internal::PredicateFormatterFromMatcher<attndb::test::StatusMatcher> {
 public:
  explicit PredicateFormatterFromMatcher(attndb::test::StatusMatcher matcher)
      : matcher_(std::move(matcher)) {}
  template <typename T>
  ::testing::AssertionResult operator()(const char* text, const T& value) const {
    return matcher_.Judge(text, attndb::test::StatusOf(value));
  }

 private:
  const attndb::test::StatusMatcher matcher_;
};

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
