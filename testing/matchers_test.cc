// Goal:   IsOk and FailsWith accept what they should and no more. A failure says what was expected
//         and what was found, alone and inside other matchers.
// Method: expectations that hold, and the text of expectations that fail.
#include "testing/matchers.h"

#include <gmock/gmock.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace attndb::test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Status Damaged() { return Status::Corruption("segment 7 has checksum 1, not 2"); }
Result<int> Seven() { return 7; }
Result<int> NoNumber() { return Damaged(); }
// GoogleMock can neither copy nor print this value.
Result<std::unique_ptr<int>> Pointer() { return std::make_unique<int>(7); }

TEST(MatchersTest, AStatusAndAResultAreJudgedByCodeAndMessage) {
  EXPECT_THAT(Status::Ok(), IsOk());
  EXPECT_THAT(Seven(), IsOk());
  EXPECT_THAT(Pointer(), IsOk());
  EXPECT_THAT(Damaged(), FailsWith(StatusCode::kCorruption, HasSubstr("segment 7")));
  EXPECT_THAT(NoNumber(), FailsWith(StatusCode::kCorruption, "segment 7 has checksum 1, not 2"));
  EXPECT_THAT(NoNumber(), FailsWith(StatusCode::kCorruption,
                                    AllOf(HasSubstr("segment 7"), HasSubstr("not 2"))));
}

TEST(MatchersTest, AFailureShowsTheExpressionTheExpectationAndTheStatus) {
  EXPECT_NONFATAL_FAILURE(EXPECT_THAT(NoNumber(), IsOk()),
                          "Value of: NoNumber()\nExpected: is ok\n"
                          "  Actual: corruption: segment 7 has checksum 1, not 2");
  EXPECT_NONFATAL_FAILURE(
      EXPECT_THAT(Seven(), FailsWith(StatusCode::kNotFound, HasSubstr("context"))),
      "Value of: Seven()\nExpected: is not found with a message that has substring \"context\"\n"
      "  Actual: ok");
}

TEST(MatchersTest, AnotherCodeAndAnotherMessageFail) {
  EXPECT_NONFATAL_FAILURE(
      EXPECT_THAT(Damaged(), FailsWith(StatusCode::kIoError, HasSubstr("segment 7"))),
      "Expected: is i/o error with");
  EXPECT_NONFATAL_FAILURE(
      EXPECT_THAT(Damaged(), FailsWith(StatusCode::kCorruption, HasSubstr("segment 8"))),
      "a message that has substring \"segment 8\"");
}

TEST(MatchersTest, AnExpectationShowsWhatTheTestAddsToIt) {
  EXPECT_NONFATAL_FAILURE(EXPECT_THAT(Damaged(), IsOk()) << "round 3", "round 3");
}

TEST(MatchersTest, AssertionsEndTheTest) {
  EXPECT_FATAL_FAILURE(ATTNDB_ASSERT_OK(Damaged()), "Expected: is ok");
  EXPECT_FATAL_FAILURE(
      {
        ATTNDB_ASSERT_OK_AND_ASSIGN(const int value, NoNumber());
        (void)value;
      },
      "Actual: corruption: segment 7");
  EXPECT_NONFATAL_FAILURE(ATTNDB_EXPECT_OK(Damaged()), "Expected: is ok");
  ATTNDB_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<int> value, Pointer());
  EXPECT_EQ(*value, 7);
}

TEST(MatchersTest, OtherMatchersTakeThem) {
  EXPECT_THAT(NoNumber(), Not(IsOk()));
  EXPECT_THAT(Seven(), Not(FailsWith(StatusCode::kCorruption, HasSubstr(""))));
  EXPECT_THAT(Pointer(), AllOf(IsOk(), IsOk()));
  EXPECT_THAT(std::vector<Status>(2), Each(IsOk()));
  const std::vector<Status> statuses = {Status::Ok(), Damaged()};
  EXPECT_THAT(statuses, ElementsAre(IsOk(), FailsWith(StatusCode::kCorruption, HasSubstr("7"))));
  EXPECT_THAT(statuses, Not(Each(IsOk())));
}

TEST(MatchersTest, InsideOtherMatchersTheFailureShowsTheStatus) {
  EXPECT_NONFATAL_FAILURE(EXPECT_THAT(Seven(), Not(IsOk())), "Expected: not (is ok)");
  EXPECT_NONFATAL_FAILURE(EXPECT_THAT(std::vector<Status>{Damaged()}, Each(IsOk())),
                          "segment 7 has checksum 1, not 2");
  EXPECT_NONFATAL_FAILURE(
      EXPECT_THAT(Damaged(), Not(FailsWith(StatusCode::kCorruption, HasSubstr("7")))),
      "Expected: not (is corruption with a message that has substring \"7\")");
}

TEST(MatchersTest, ASuccessHasNoMessageToMatch) {
  EXPECT_NONFATAL_FAILURE((void)FailsWith(StatusCode::kOk, HasSubstr("x")), "use IsOk()");
}

}  // namespace
}  // namespace attndb::test
