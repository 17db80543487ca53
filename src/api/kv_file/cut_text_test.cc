// Goal:   cuts survive the way through their text, and no other text is taken for some.
#include "api/kv_file/cut_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "testing/matchers.h"

namespace attndb::internal {
namespace {

using test::FailsWith;
using ::testing::HasSubstr;

TEST(CutTextTest, RoundTrip) {
  const std::vector<Cut> cuts = {{4096, {{4, 2048}}}, {5000, {{2048, 3000}, {3010, 3048}}}};
  EXPECT_EQ(FormatCuts(cuts), "4096:4-2048;5000:2048-3000,3010-3048");
  EXPECT_EQ(*ParseCuts(FormatCuts(cuts)), cuts);
}

TEST(CutTextTest, OtherTextsAreRefused) {
  for (const char* text :
       {"", ";", "1", "1:", "1:2", "1:2-", "1:2-3,", "1:2-3;", "1:2-3;;2:3-4", " 1:2-3", "1:2-3 ",
        "01:2-3", "1:-2-3", "+1:2-3", "1:2-3:4-5", "1:2-99999999999999999999", "a:b-c"}) {
    EXPECT_THAT(ParseCuts(text), FailsWith(StatusCode::kInvalidArgument,
                                           HasSubstr("cuts is '" + std::string(text) + "'")));
  }
}

}  // namespace
}  // namespace attndb::internal
