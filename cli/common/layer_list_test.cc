// Goal:   a list of layers is understood or refused with what is expected.
#include "cli/common/layer_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace attndb::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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

}  // namespace
}  // namespace attndb::cli
