// Goal:   what a user writes about layers, scalings and token ids is understood or refused by name.
#include "cli/common/capture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace attndb::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(ParseLayersTest, NumbersAndRangesAscend) {
  EXPECT_THAT(*ParseLayers("0", 8), ElementsAre(0));
  EXPECT_THAT(*ParseLayers("0,3,5-7", 8), ElementsAre(0, 3, 5, 6, 7));
  EXPECT_THAT(*ParseLayers("2-2,3", 8), ElementsAre(2, 3));
  for (const char* text : {"", ",", "0,", "8", "3,2", "3,3", "2-1", "0-8", "-1", "1-", "a", "0 1",
                           "0-2,2", "4294967296"}) {
    const auto layers = ParseLayers(text, 8);
    ASSERT_FALSE(layers.ok()) << text;
    EXPECT_EQ(layers.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(layers.status().message(), HasSubstr("below 8, as in 0,3,5-7"));
  }
}

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
