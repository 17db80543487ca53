// Goal:   what a user writes about scalings and token ids is understood or refused by name.
#include "cli/common/capture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace attndb::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(ParseRopeScalingTest, AKindAndAFactor) {
  EXPECT_EQ(ParseRopeScaling("model")->kind, llama::RopeScalingKind::kModel);
  EXPECT_EQ(ParseRopeScaling("linear:4")->kind, llama::RopeScalingKind::kLinear);
  EXPECT_EQ(ParseRopeScaling("yarn:2.5")->kind, llama::RopeScalingKind::kYarn);
  EXPECT_EQ(ParseRopeScaling("yarn:2.5")->factor, 2.5F);
  for (const char* text : {"", "yarn", "yarn:", "yarn:0.5", "yarn:-4", "yarn:x", "ntk:4", "4",
                           "linear:nan", "linear:4x"}) {
    const auto scaling = ParseRopeScaling(text);
    ASSERT_FALSE(scaling.ok()) << text;
    EXPECT_THAT(scaling.status().message(), HasSubstr("expected linear:FACTOR or yarn:FACTOR"));
  }
}

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
