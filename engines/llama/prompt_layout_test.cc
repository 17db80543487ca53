// Goal:   the pure parts of telling a document from a dialogue, and of whose words tokens are. The
//         whole is tested with models in text_join_test.cc and in tests/cli.
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

TEST(PromptLayoutTest, MessagesGoOnBehindThoseBefore) {
  TextLayout document = {TextForm::kDocument, {{TextRole::kUser, {2, 10}}}};
  // The last token became another one, and the second part is empty.
  const JoinedText joined = {.tokens = Tokens(20), .num_kept = 9, .contents = {{12, 17}, {20, 20}}};
  const TextRole roles[] = {TextRole::kUser, TextRole::kOther};
  TextLayout asked = Continued(document, joined, roles);
  EXPECT_EQ(asked.ToString(), "document user:2-9 user:12-17");
  AddReply({20, 23}, &asked);
  EXPECT_EQ(asked.ToString(), "dialogue user:2-9 user:12-17 assistant:20-23");
  AddReply({23, 23}, &asked);
  EXPECT_EQ(asked.messages.size(), 3U) << "a reply of no words";
  EXPECT_EQ(FirstOf(asked, 14).ToString(), "dialogue user:2-9 user:12-14");
  EXPECT_EQ(FirstOf(asked, 1).ToString(), "dialogue");
  asked.left_out = {{3, 5}, {13, 16}};
  EXPECT_EQ(FirstOf(asked, 14).ToString(), "dialogue without:3-5,13-14 user:2-9 user:12-14");
  EXPECT_EQ(FirstOf(asked, 13).ToString(), "dialogue without:3-5 user:2-9 user:12-13");
}

TEST(PromptLayoutTest, RangesLeaveATextWithTheirMessages) {
  TextLayout text = *TextLayout::Parse("dialogue without:1-2 user:0-2 other:3-4 user:4-9");
  Tokens tokens = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  const std::vector<TokenRange> left_out = {{2, 4}, {7, 8}};
  TakeOut(left_out, &tokens, &text);
  EXPECT_EQ(tokens, (Tokens{0, 1, 4, 5, 6, 8, 9}));
  EXPECT_EQ(text.ToString(), "dialogue user:0-2 user:2-6");
  TakeOut({}, &tokens, &text);
  EXPECT_EQ(tokens, (Tokens{0, 1, 4, 5, 6, 8, 9}));
}

TEST(PromptLayoutTest, NothingIsSaidBehindATextOfWhichNothingIsKnown) {
  const JoinedText joined = {.tokens = Tokens(20), .num_kept = 9, .contents = {{12, 17}}};
  const TextRole roles[] = {TextRole::kUser};
  for (const TextForm form : {TextForm::kUnknown, TextForm::kRaw}) {
    TextLayout text = Continued({form, {}}, joined, roles);
    AddReply({20, 23}, &text);
    EXPECT_EQ(text, (TextLayout{form, {}}));
  }
}

TEST(PromptLayoutTest, MoreMessagesThanAreKeptLeaveTheForm) {
  TextLayout text = {TextForm::kDialogue, {}};
  for (uint64_t i = 0; i <= TextLayout::kMaxMessages; ++i) AddReply({i, i + 1}, &text);
  EXPECT_EQ(text, (TextLayout{TextForm::kDialogue, {}}));
}

}  // namespace
}  // namespace attndb::llama
