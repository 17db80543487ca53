// Goal:   sizes are read as sellers state them; texts that are no sizes are named.
// Method: texts and their bytes.
#include "cli/common/gb_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace attndb::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(GbListTest, SizesAreGigabytes) {
  EXPECT_THAT(*ParseGbList("--disk", "64"), ElementsAre(64'000'000'000u));
  EXPECT_THAT(*ParseGbList("--disk", "0,0.5GB,1.5TB"),
              ElementsAre(0u, 500'000'000u, 1'500'000'000'000u));
}

TEST(GbListTest, WhatIsNoSizeIsNamed) {
  for (const char* text : {"", "1,", ",1", "x", "-1", "1GiB", "nan", "1e30", "TB", "1 2"}) {
    const auto sizes = ParseGbList("--disk", text);
    ASSERT_FALSE(sizes.ok()) << text;
    EXPECT_THAT(sizes.status().message(), HasSubstr("--disk '"));
    EXPECT_THAT(sizes.status().message(), HasSubstr("expected sizes in GB"));
  }
}

}  // namespace
}  // namespace attndb::cli
