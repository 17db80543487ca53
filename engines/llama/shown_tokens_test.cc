// Goal:   each token of a reply is given out with the text that shows its last byte, once and in
//         order, and the tokens' bytes are the text's.
// Method: by hand, and random pieces of a text through a TextStream with stop strings.
#include "engines/llama/shown_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "engines/llama/text_stream.h"
#include "testing/seed.h"

namespace attndb::llama {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> TextsOf(const std::vector<ReplyToken>& tokens) {
  std::vector<std::string> texts;
  for (const ReplyToken& token : tokens) texts.push_back(token.text);
  return texts;
}

ReplyToken Token(const std::string& text, TokenId id = 0) {
  ReplyToken token;
  token.token = id;
  token.text = text;
  return token;
}

TEST(ShownTokensTest, ATokenComesWithItsLastByte) {
  ShownTokens tokens;
  tokens.Add(Token("abc"));
  EXPECT_THAT(tokens.Show(2), IsEmpty());
  tokens.Add(Token("d"));
  tokens.Add(Token("ef"));
  EXPECT_THAT(TextsOf(tokens.Show(3)), ElementsAre("abc", "d"));
  EXPECT_THAT(TextsOf(tokens.Finish(false)), ElementsAre("ef"));
  EXPECT_THAT(tokens.Finish(false), IsEmpty());
}

TEST(ShownTokensTest, ATokenWithoutBytesComesWithWhatStandsBeforeIt) {
  ShownTokens tokens;
  tokens.Add(Token("", 1));
  tokens.Add(Token("a", 2));
  tokens.Add(Token("", 3));
  tokens.Add(Token("b", 4));
  EXPECT_THAT(TextsOf(tokens.Show(1)), ElementsAre("", "a", ""));
  EXPECT_THAT(TextsOf(tokens.Show(1)), ElementsAre("b"));
  tokens.Add(Token("", 5));
  EXPECT_THAT(TextsOf(tokens.Finish(true)), ElementsAre(""));
}

TEST(ShownTokensTest, AStopStringCutsItsTokens) {
  ShownTokens tokens;
  tokens.Add(Token("one "));
  tokens.Add(Token("two STO"));
  tokens.Add(Token("P"));
  tokens.Add(Token(""));
  EXPECT_THAT(TextsOf(tokens.Show(8)), ElementsAre("one "));
  EXPECT_THAT(TextsOf(tokens.Finish(true)), ElementsAre("two "));
}

TEST(ShownTokensTest, AStopStringThatBeginsWithATokenLeavesNothing) {
  ShownTokens tokens;
  tokens.Add(Token("one"));
  tokens.Add(Token("STOP"));
  EXPECT_THAT(TextsOf(tokens.Show(3)), ElementsAre("one"));
  EXPECT_THAT(tokens.Finish(true), IsEmpty());
}

// Goal: whatever is held back, the bytes of the tokens so far are a beginning of the text so far,
// and less than a token is missing; in the end both are the same.
TEST(ShownTokensTest, TheTokensOfAStreamAreItsText) {
  std::mt19937_64 random(::attndb::test::SeedOr(4));
  const std::string text = "na\xC3\xAFve \xE2\x82\xAC \xF0\x9F\x98\x80 stop stop. \xC3\xA9nd";
  for (int round = 0; round < 500; ++round) {
    TextStream stream({round % 2 == 0 ? "stop." : "never"});
    ShownTokens tokens;
    std::string shown, of_tokens;
    size_t longest = 0;
    for (size_t at = 0; at < text.size() && !stream.stopped();) {
      const std::string piece = text.substr(at, random() % 5);
      longest = std::max(longest, piece.size());
      at += piece.size();
      tokens.Add(Token(piece));
      const std::string more = stream.Push(piece);
      shown += more;
      if (!more.empty()) {
        for (const std::string& token : TextsOf(tokens.Show(more.size()))) of_tokens += token;
      }
      ASSERT_TRUE(shown.starts_with(of_tokens));
      ASSERT_LE(shown.size() - of_tokens.size(), longest);
    }
    shown += stream.Finish();
    for (const std::string& token : TextsOf(tokens.Finish(stream.stopped()))) of_tokens += token;
    ASSERT_EQ(shown, of_tokens);
  }
}

}  // namespace
}  // namespace attndb::llama
