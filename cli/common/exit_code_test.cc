// Goal:   each kind of failure has the exit code that docs/cli.md gives it, for ever.
// Method: the whole table.
#include "cli/common/exit_code.h"

#include <gtest/gtest.h>

#include <optional>
#include <utility>
#include <vector>

namespace attndb::cli {
namespace {

TEST(ExitCodeTest, NumbersAreAContract) {
  const std::vector<std::pair<StatusCode, int>> expected = {{StatusCode::kOk, 0},
                                                            {StatusCode::kInvalidArgument, 2},
                                                            {StatusCode::kNotFound, 3},
                                                            {StatusCode::kAlreadyExists, 8},
                                                            {StatusCode::kFailedPrecondition, 1},
                                                            {StatusCode::kCorruption, 4},
                                                            {StatusCode::kIoError, 1},
                                                            {StatusCode::kResourceExhausted, 6},
                                                            {StatusCode::kUnsupported, 10},
                                                            {StatusCode::kBusy, 5},
                                                            {StatusCode::kReadOnly, 9},
                                                            {StatusCode::kCancelled, 130},
                                                            {StatusCode::kOtherModel, 11},
                                                            {StatusCode::kInternal, 1}};
  for (const auto& [status, number] : expected) {
    EXPECT_EQ(static_cast<int>(ExitCodeOf(status)), number) << StatusCodeName(status);
  }
  EXPECT_EQ(static_cast<int>(ExitCode::kCheckDiffers), 7);
  EXPECT_EQ(static_cast<int>(ExitCode::kNoText), 12);
}

TEST(ExitCodeTest, CodesAreKnownByTheirNames) {
  for (int number = 1; number <= static_cast<int>(StatusCode::kOtherModel); ++number) {
    const auto code = static_cast<StatusCode>(number);
    EXPECT_EQ(CodeNamed(StatusCodeName(code)), code);
  }
  EXPECT_EQ(CodeNamed("ok"), std::nullopt);
  EXPECT_EQ(CodeNamed(""), std::nullopt);
}

}  // namespace
}  // namespace attndb::cli
