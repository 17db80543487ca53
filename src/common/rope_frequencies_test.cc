// Goal:   angles are those that the engines turn by; scalings whose angles are not known are
//         refused by name.
// Method: values that transformers 5 computes, in float32, for the same parameters
//         (ROPE_INIT_FUNCTIONS).
#include "common/rope_frequencies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>

#include "testing/matchers.h"

namespace attndb {
namespace {

using ::attndb::test::FailsWith;
using ::testing::HasSubstr;

Rope RopeOf(std::string scaling, double base = 10000) {
  return {.layout = RopeLayout::kHalf, .base = base, .scaling = std::move(scaling)};
}

TEST(RopeFrequenciesTest, ArePowersOfTheBase) {
  const auto frequencies = *RopeFrequencies(RopeOf(""), 64);
  ASSERT_EQ(frequencies.size(), 32u);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    EXPECT_DOUBLE_EQ(frequencies[i], std::pow(10000.0, -2.0 * static_cast<double>(i) / 64));
  }
  EXPECT_TRUE(RopeFrequencies({}, 64)->empty());
}

TEST(RopeFrequenciesTest, LinearShrinksAll) {
  const auto plain = *RopeFrequencies(RopeOf(""), 64);
  for (const char* text : {"linear:factor=4", "linear:freq_scale=0.25,attn=1"}) {
    const auto scaled = *RopeFrequencies(RopeOf(text), 64);
    for (size_t i = 0; i < plain.size(); ++i) EXPECT_DOUBLE_EQ(scaled[i], plain[i] / 4);
  }
}

// transformers' and llama.cpp's words for one scaling.
TEST(RopeFrequenciesTest, YarnIsThatOfTransformers) {
  constexpr std::pair<size_t, double> kExpected[] = {{0, 1},
                                                     {5, 0.165481701},
                                                     {10, 0.0273841955},
                                                     {14, 0.00454567187},
                                                     {18, 0.000615970581},
                                                     {22, 9.12935284e-05},
                                                     {26, 2.1649108e-05},
                                                     {31, 3.58253169e-06}};
  for (const char* text :
       {"yarn:factor=4.0,original_max_position_embeddings=8192",
        "yarn:freq_scale=0.25,ext=1,attn=1,beta_fast=32,beta_slow=1,orig=8192"}) {
    const auto frequencies = *RopeFrequencies(RopeOf(text, 100000), 64);
    for (const auto& [pair, expected] : kExpected) {
      EXPECT_NEAR(frequencies[pair], expected, 1e-6 * expected) << text << " " << pair;
    }
  }
}

TEST(RopeFrequenciesTest, Llama3IsThatOfTransformers) {
  constexpr std::pair<size_t, double> kExpected[] = {{0, 1},
                                                     {20, 0.0165604409},
                                                     {28, 0.00321144611},
                                                     {30, 0.00137189368},
                                                     {32, 0.000524846022},
                                                     {36, 7.78465546e-05},
                                                     {50, 4.41153452e-06},
                                                     {63, 3.06892588e-07}};
  const auto frequencies =
      *RopeFrequencies(RopeOf("llama3:factor=8.0,high_freq_factor=4.0,low_freq_factor=1.0,"
                              "original_max_position_embeddings=8192",
                              500000),
                       128);
  for (const auto& [pair, expected] : kExpected) {
    EXPECT_NEAR(frequencies[pair], expected, 1e-6 * expected) << pair;
  }
}

TEST(RopeFrequenciesTest, OthersAreRefusedByName) {
  for (const char* text :
       {"dynamic:factor=2.0", "longrope:factor=4", "linear", "linear:factor=x", "linear:factor=0",
        "linear:freq_scale=-1", "linear:factor=inf", "yarn:factor=4", "yarn:factor=4,orig=0",
        "llama3:factor=8.0", "factors:sha256=00", "linear:freq_scale=0.5,attn=1;factors:sha256=00",
        "proportional:factor=1", ":", "yarn:"}) {
    EXPECT_THAT(RopeFrequencies(RopeOf(text), 64),
                FailsWith(StatusCode::kUnsupported, HasSubstr("'" + std::string(text) + "'")));
  }
}

}  // namespace
}  // namespace attndb
