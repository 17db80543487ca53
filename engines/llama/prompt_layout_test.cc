// Goal:   the pure parts of telling a document from a dialogue. The whole is tested with a model in
//         tests/cli.
// Method: small lists of ids.
#include "engines/llama/prompt_layout.h"

#include <gtest/gtest.h>

#include <vector>

namespace attndb::llama {
namespace {

using Tokens = std::vector<TokenId>;

TEST(PromptLayoutTest, CommonPrefixStopsAtTheFirstDifference) {
  EXPECT_EQ(CommonPrefix(Tokens{1, 2, 3}, Tokens{1, 2, 4}), 2U);
  EXPECT_EQ(CommonPrefix(Tokens{1, 2}, Tokens{1, 2, 4}), 2U);
  EXPECT_EQ(CommonPrefix(Tokens{}, Tokens{1}), 0U);
}

TEST(PromptLayoutTest, CommonSuffixStopsAtTheLastDifference) {
  EXPECT_EQ(CommonSuffix(Tokens{1, 2, 3}, Tokens{4, 2, 3}), 2U);
  EXPECT_EQ(CommonSuffix(Tokens{2, 3}, Tokens{1, 2, 3}), 2U);
  EXPECT_EQ(CommonSuffix(Tokens{1, 2}, Tokens{1, 3}), 0U);
  EXPECT_EQ(CommonSuffix(Tokens{}, Tokens{1}), 0U);
}

TEST(PromptLayoutTest, EndOfFirstIsBehindTheFirstRun) {
  EXPECT_EQ(EndOfFirst(Tokens{1, 2, 3, 2, 3}, Tokens{2, 3}), 3U);
  EXPECT_EQ(EndOfFirst(Tokens{1, 2}, Tokens{2, 3}), std::nullopt);
  EXPECT_EQ(EndOfFirst(Tokens{1, 2}, Tokens{}), 0U);
}

TEST(PromptLayoutTest, ContainsFindsRunsOnly) {
  EXPECT_TRUE(Contains(Tokens{1, 2, 3, 4}, Tokens{2, 3}));
  EXPECT_FALSE(Contains(Tokens{1, 2, 3, 4}, Tokens{2, 4}));
  EXPECT_TRUE(Contains(Tokens{1}, Tokens{}));
}

}  // namespace
}  // namespace attndb::llama
