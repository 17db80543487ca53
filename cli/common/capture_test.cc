// Goal:   texts of token ids are understood, or refused by name.
#include "cli/common/capture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace attndb::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(ParseTokenIdsTest, AnythingMayStandBetween) {
  EXPECT_THAT(*ParseTokenIds("1 2,3\n4,\t5\r\n"), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(*ParseTokenIds(" \n"), IsEmpty());
  for (const char* text : {"1 -2", "1 2.5", "1 x", "1 2147483648"}) {
    const auto tokens = ParseTokenIds(text);
    ASSERT_FALSE(tokens.ok()) << text;
    EXPECT_THAT(tokens.status().message(), HasSubstr("token 1 is '"));
  }
}

}  // namespace
}  // namespace attndb::cli
