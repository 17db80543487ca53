// Goal:   what was found fits a line, whatever bytes a passage has.
// Method: texts by hand.
#include "cli/common/found_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli/common/display_width.h"

namespace attndb::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

FindResult Found() {
  FindResult found;
  found.passages = {{"manual", ContextId{3}, {1024, 1088}, 4.321, {}},
                    {"#7", ContextId{7}, {0, 64}, 0.5, {}}};
  found.skipped = {{"old", "expired"}};
  found.num_contexts = 1;
  found.num_tokens = 203'008;
  return found;
}

TEST(FoundTextTest, OneLineHasNoBreaksAndNoControlCharacters) {
  EXPECT_EQ(OneLine("  a\n\n b\tc \r\n", 20), "a b c");
  EXPECT_EQ(OneLine("a\x1b[31mred\x7f", 20), "a[31mred");
  EXPECT_EQ(OneLine("", 20), "");
  EXPECT_EQ(OneLine(" \n ", 20), "");
}

TEST(FoundTextTest, WhatIsTooLongIsCutBetweenCharacters) {
  EXPECT_EQ(OneLine("abcdef", 6), "abcdef");
  EXPECT_EQ(OneLine("abcdefg", 6), "abcde\u2026");
  const std::string cut = OneLine("\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4", 4);
  EXPECT_EQ(cut, "\u00e4\u00e4\u00e4\u2026");
  EXPECT_EQ(DisplayWidth(cut), 4u);
}

TEST(FoundTextTest, ATableHasALineForEachPassage) {
  const std::vector<std::string> texts = {"The key is\nunder the stone.", "Contents"};
  const std::string table = FoundTable(Found(), texts);
  EXPECT_THAT(table, HasSubstr(" 4.32  manual   1,024-1,087  The key is under the stone.\n"));
  EXPECT_THAT(table, HasSubstr(" 0.50  #7              0-63  Contents\n"));
  EXPECT_THAT(table, Not(HasSubstr("expired")));
}

TEST(FoundTextTest, ATableFitsItsWidth) {
  const std::vector<std::string> texts = {std::string(90, 'x'), "Contents"};
  EXPECT_THAT(FoundTable(Found(), texts, 60), HasSubstr(" 4.32  manual   1,024-1,087  xxx"));
  const std::string table = FoundTable(Found(), texts, 60);
  for (size_t at = 0; at < table.size(); at = table.find('\n', at) + 1) {
    EXPECT_LE(DisplayWidth(table.substr(at, table.find('\n', at) - at)), 60u) << table;
  }
}

TEST(FoundTextTest, JsonHasTheWholeText) {
  const std::vector<std::string> texts = {"The key is\nunder the stone.", "Contents"};
  const Json json = ToJson(Found(), texts, {.question_ms = 90, .find_ms = 40});
  EXPECT_EQ(json["passages"][0]["text"], texts[0]);
  EXPECT_EQ(json["passages"][0]["first_token"], 1024);
  EXPECT_EQ(json["passages"][0]["num_tokens"], 64);
  EXPECT_EQ(json["skipped"][0]["reason"], "expired");
  EXPECT_EQ(json["find_ms"], 40);
}

TEST(FoundTextTest, TheNoteSaysHowMuchAndHowLong) {
  EXPECT_EQ(ToText(Found(), {.question_ms = 190, .find_ms = 71}),
            "looked through 203,008 tokens of 1 context in 71 ms, after 190 ms for the "
            "question");
}

}  // namespace
}  // namespace attndb::cli
