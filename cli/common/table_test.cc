// Goal:   tables line up, whatever the cells hold.
// Method: whole texts compared.
#include "cli/common/table.h"

#include <gtest/gtest.h>

namespace attndb::cli {
namespace {

TEST(TableTest, ColumnsAreAsWideAsTheirWidestCell) {
  Table table({{"NAME"}, {"TOKENS", Align::kRight}, {"STATE"}});
  table.AddRow({"a", "12", "pinned"});
  table.AddRow({"handbook", "1,234,567", ""});
  EXPECT_EQ(table.ToText(),
            "NAME         TOKENS  STATE\n"
            "a                12  pinned\n"
            "handbook  1,234,567\n");
}

TEST(TableTest, MissingCellsAreEmptyAndNoLineEndsWithSpaces) {
  Table table({{"A"}, {"B"}, {"C"}});
  table.AddRow({"x"});
  EXPECT_EQ(table.ToText(), "A  B  C\nx\n");
}

TEST(TableTest, WidthCountsCodePointsNotBytes) {
  Table table({{"N"}, {"X"}});
  table.AddRow({"\xC3\xBC", "1"});
  EXPECT_EQ(table.ToText(), "N  X\n\xC3\xBC  1\n");
}

TEST(TableTest, CellsOfWideCharactersLineUp) {
  Table table({{"N"}, {"X"}});
  table.AddRow({"\u624b\u518a", "1"});  // Two Chinese characters: four columns.
  table.AddRow({"abc", "2"});
  EXPECT_EQ(table.ToText(), "N     X\n\u624b\u518a  1\nabc   2\n");
}

TEST(TableTest, ATableThatIsTooWideShrinksAndThenLeavesColumnsOut) {
  Table table({{.header = "NAME", .min_width = 6},
               {.header = "SIZE", .align = Align::kRight, .rank = 1},
               {.header = "AGE", .rank = 2},
               {.header = "MODEL", .min_width = 5}});
  table.AddRow({"a-long-name", "12 KiB", "3 min", "a long model"});
  const auto row = [&](size_t width) {
    const std::string text = table.ToText(width);
    return text.substr(text.find('\n') + 1);
  };
  EXPECT_EQ(row(kAnyWidth), "a-long-name  12 KiB  3 min  a long model\n");
  EXPECT_EQ(row(40), "a-long-name  12 KiB  3 min  a long model\n");
  EXPECT_EQ(row(39), "a-long-name  12 KiB  3 min  a long mod\u2026\n");
  EXPECT_EQ(row(33), "a-long-name  12 KiB  3 min  a lo\u2026\n");
  EXPECT_EQ(row(32), "a-long-na\u2026  12 KiB  3 min  a lo\u2026\n");
  EXPECT_EQ(row(27), "a-long-name  12 KiB  a lon\u2026\n") << "the age is left out";
  EXPECT_EQ(row(20), "a-long-name  a long\u2026\n") << "the size is, too";
  EXPECT_EQ(row(5), "a-lon\u2026  a lo\u2026\n") << "what is left stays";
}

TEST(TableTest, PairsLineUpBehindTheLongestKey) {
  EXPECT_EQ(PairsText({{"cpu", "fast"}, {"memory", "much"}}, "  "),
            "  cpu     fast\n  memory  much\n");
}

}  // namespace
}  // namespace attndb::cli
