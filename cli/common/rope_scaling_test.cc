// Goal:   texts of scalings are understood, or refused by name. A context's identity gives back the
//         user's text.
#include "cli/common/rope_scaling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

namespace attndb::cli {
namespace {

using ::testing::HasSubstr;

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

TEST(RopeScalingTextTest, IsWhatTheUserWrote) {
  for (const char* text : {"model", "linear:4", "yarn:2.5", "yarn:1024"}) {
    EXPECT_EQ(RopeScalingText(*ParseRopeScaling(text)), text);
  }
}

TEST(RopeScalingOfTest, TheIdentityOfEachFactorGivesThatFactor) {
  for (int tenths = 10; tenths <= 10240; ++tenths) {
    const std::string written = "yarn:" + std::to_string(tenths / 10) +
                                (tenths % 10 == 0 ? "" : "." + std::to_string(tenths % 10));
    const llama::RopeScaling scaling = *ParseRopeScaling(written);
    char identity[96];
    std::snprintf(identity, sizeof(identity), "yarn:freq_scale=%.9g,ext=1,attn=1,orig=8192",
                  static_cast<double>(1.0F / scaling.factor));
    const std::optional<llama::RopeScaling> found = RopeScalingOf(identity);
    ASSERT_TRUE(found) << identity;
    EXPECT_EQ(RopeScalingText(*found), written);
    EXPECT_EQ(found->factor, scaling.factor);
  }
  EXPECT_EQ(RopeScalingText(*RopeScalingOf("linear:freq_scale=0.25,attn=1")), "linear:4");
  EXPECT_EQ(RopeScalingText(*RopeScalingOf("linear:freq_scale=0.25;factors:sha256=00")),
            "linear:4");
}

TEST(RopeScalingOfTest, WhatNoFlagSaysIsNone) {
  for (const char* identity : {"", "factors:sha256=00", "linear:factor=4", "yarn:freq_scale=x",
                               "yarn:freq_scale=0", "yarn:freq_scale=-1", "yarn:freq_scale=nan",
                               "linear:freq_scale=1e-45", "linear:freq_scale=2", "linear:"}) {
    EXPECT_FALSE(RopeScalingOf(identity)) << identity;
  }
}

}  // namespace
}  // namespace attndb::cli
