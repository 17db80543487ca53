// Goal:   a failure carries its code and message, and a programmer's error ends the process.
// Method: values; death tests.
#include "attndb/status.h"

#include <gtest/gtest.h>

#include <string>

#include "attndb/result.h"
#include "common/check.h"

namespace attndb {
namespace {

Result<int> Half(int value) {
  if (value % 2 != 0) return Status::InvalidArgument("expected an even number");
  return value / 2;
}

Result<int> Quarter(int value) {
  ATTNDB_ASSIGN_OR_RETURN(const int half, Half(value));
  return Half(half);
}

Status CheckQuarter(int value) {
  ATTNDB_RETURN_IF_ERROR(Quarter(value).status());
  return Status::Ok();
}

TEST(Status, TextNamesCodeAndMessage) {
  EXPECT_EQ(Status::Ok().ToString(), "ok");
  EXPECT_EQ(Status::Corruption("segment 1").ToString(), "corruption: segment 1");
  EXPECT_EQ(StatusCodeName(static_cast<StatusCode>(200)), "unknown status");
}

TEST(Status, EveryCodeHasItsOwnName) {
  for (int a = 0; a <= static_cast<int>(StatusCode::kOtherModel); ++a) {
    EXPECT_NE(StatusCodeName(static_cast<StatusCode>(a)), "unknown status") << a;
    for (int b = 0; b < a; ++b) {
      EXPECT_NE(StatusCodeName(static_cast<StatusCode>(a)),
                StatusCodeName(static_cast<StatusCode>(b)));
    }
  }
}

TEST(Status, ContextComesInFrontAndLeavesOkAlone) {
  const Status status = Status::IoError("disk").WithContext("segment 7").WithContext("store");
  EXPECT_EQ(status, Status(StatusCode::kIoError, "store: segment 7: disk"));
  EXPECT_TRUE(Status::Ok().WithContext("anything").ok());
}

TEST(Result, MacrosPassTheFirstFailureOn) {
  EXPECT_EQ(*Quarter(12), 3);
  EXPECT_EQ(Quarter(6).status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(CheckQuarter(8).ok());
  EXPECT_EQ(CheckQuarter(3), Half(3).status());
}

TEST(ResultDeathTest, ReadingAFailedResultEndsTheProcess) {
  const Result<int> failed = Status::NotFound("nothing here");
  EXPECT_DEATH((void)*failed, "nothing here");
}

TEST(CheckDeathTest, AFailedCheckNamesPlaceAndCondition) {
  const int one = 1;
  EXPECT_DEATH(ATTNDB_CHECK(one == 2), "status_test.cc:.*one == 2");
}

}  // namespace
}  // namespace attndb
