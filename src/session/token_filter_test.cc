// Goal:   a filter leaves the right tokens and follows a session that is cropped and then
//         continues.
// Method: lists of the visible tokens.
#include "session/token_filter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "testing/matchers.h"

namespace attndb::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Ranges = std::vector<TokenRange>;

Ranges Seen(const TokenFilter& filter, TokenRange tokens) {
  Ranges seen;
  filter.ForEachSeen(tokens, [&seen](TokenRange part) { seen.push_back(part); });
  return seen;
}

TEST(TokenFilterTest, WhatIsAppendedAfterACropIsSeen) {
  TokenFilter filter = *TokenFilter::Of(Ranges{{0, 10}, {50, 60}}, 100);
  EXPECT_THAT(Seen(filter, {0, 120}),
              ElementsAre(TokenRange{0, 10}, TokenRange{50, 60}, TokenRange{100, 120}));
  filter.Crop(55);
  EXPECT_EQ(filter.end(), 55u);
  EXPECT_THAT(Seen(filter, {0, 120}),
              ElementsAre(TokenRange{0, 10}, TokenRange{50, 55}, TokenRange{55, 120}));
  EXPECT_EQ(filter.SeenToken(15), 55u);
}

TEST(TokenFilterTest, ACropLeavesNoRangeBehind) {
  TokenFilter filter = *TokenFilter::Of(Ranges{{0, 10}, {50, 60}, {70, 80}}, 100);
  filter.Crop(100);
  EXPECT_THAT(filter.ranges(),
              ElementsAre(TokenRange{0, 10}, TokenRange{50, 60}, TokenRange{70, 80}));
  filter.Crop(50);
  EXPECT_THAT(filter.ranges(), ElementsAre(TokenRange{0, 10}));
  filter.Crop(0);
  EXPECT_THAT(filter.ranges(), IsEmpty());
  EXPECT_FALSE(filter.hides()) << "there is nothing that it could hide";
}

TEST(TokenFilterTest, OfNoRangesHidesNothing) {
  const TokenFilter filter = *TokenFilter::Of({}, 100);
  EXPECT_FALSE(filter.hides());
  EXPECT_THAT(Seen(filter, {7, 120}), ElementsAre(TokenRange{7, 120}));
  EXPECT_EQ(filter.NumSeen({7, 120}), 113u);
}

}  // namespace
}  // namespace attndb::internal
