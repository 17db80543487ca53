#include "engines/llama/token_ranges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/matchers.h"

namespace attndb::llama {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(TokenRangesTest, ListsOfRanges) {
  EXPECT_THAT(*ParseTokenRanges(""), IsEmpty());
  EXPECT_THAT(*ParseTokenRanges("0-1"), ElementsAre(TokenRange{0, 1}));
  EXPECT_THAT(*ParseTokenRanges("5-9,9-12,20-21"),
              ElementsAre(TokenRange{5, 9}, TokenRange{9, 12}, TokenRange{20, 21}));
}

TEST(TokenRangesTest, WhatIsNoListIsNamed) {
  for (const char* text : {"5", "5-", "-5", "5-5", "9-5", "a-b", "0-5,", ",", "0-5,4-9", "6-9,0-5",
                           "1--2", "0-99999999999999999999"}) {
    EXPECT_THAT(ParseTokenRanges(text),
                test::FailsWith(StatusCode::kInvalidArgument, HasSubstr(text)))
        << text;
  }
}

TEST(TokenRangesTest, FirstTokensAreKept) {
  EXPECT_THAT(WithFirstTokens({}), IsEmpty());
  EXPECT_THAT(WithFirstTokens({{10, 12}}), ElementsAre(TokenRange{0, 4}, TokenRange{10, 12}));
  EXPECT_THAT(WithFirstTokens({{2, 12}}), ElementsAre(TokenRange{0, 12}));
  EXPECT_THAT(WithFirstTokens({{0, 1}, {2, 3}, {4, 6}, {8, 9}}),
              ElementsAre(TokenRange{0, 6}, TokenRange{8, 9}));
}

}  // namespace
}  // namespace attndb::llama
