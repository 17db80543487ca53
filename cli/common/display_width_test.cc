// Goal:   a text takes as many columns as a terminal gives it, and is cut between characters.
// Method: texts of each kind of character; widths as wcwidth(3) of a UTF-8 locale has them.
#include "cli/common/display_width.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace attndb::cli {
namespace {

TEST(DisplayWidthTest, ACharacterTakesNoneOneOrTwoColumns) {
  const std::vector<std::pair<std::string, size_t>> cases = {
      {"", 0},
      {"abc", 3},
      {"\u00fc\u20ac", 2},        // u umlaut, euro sign.
      {"\u624b\u518a", 4},        // Chinese.
      {"\u30ab\uff76", 3},        // Katakana, and its half width.
      {"\ud55c\uae00", 4},        // Hangul.
      {"\u1112\u1161\u11ab", 2},  // The same as three jamo: a syllable of two columns.
      {"e\u0301", 1},             // An accent that combines.
      {"\u0e01\u0e31", 1},        // Thai, with a vowel above.
      {"\U0001f680", 2},          // An emoji.
      {"\u2026", 1},
      {"\uff21", 2},  // A fullwidth letter.
      {"\U00020000", 2}};
  for (const auto& [text, width] : cases) EXPECT_EQ(DisplayWidth(text), width) << text;
}

TEST(DisplayWidthTest, AByteThatIsNoUtf8TakesAColumn) {
  EXPECT_EQ(DisplayWidth("a\xff\xfe"), 3u);
  EXPECT_EQ(DisplayWidth("\xe6\x89"), 2u) << "a character that is cut";
  EXPECT_EQ(DisplayWidth("\xe6"
                         "ab"),
            3u);
}

TEST(DisplayWidthTest, ATextIsCutBetweenCharacters) {
  EXPECT_EQ(CutToWidth("abc", 3), "abc");
  EXPECT_EQ(CutToWidth("abcd", 3), "ab\u2026");
  EXPECT_EQ(CutToWidth("\u624b\u518a", 4), "\u624b\u518a");
  EXPECT_EQ(CutToWidth("\u624b\u518a\u624b", 5), "\u624b\u518a\u2026");
  EXPECT_EQ(CutToWidth("\u624b\u518a\u624b", 4), "\u624b\u2026") << "no half of a character";
  EXPECT_EQ(CutToWidth("e\u0301e\u0301e\u0301", 2), "e\u0301\u2026");
  EXPECT_EQ(CutToWidth("abc", 1), "\u2026");
}

}  // namespace
}  // namespace attndb::cli
