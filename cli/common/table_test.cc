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
  EXPECT_EQ(DisplayWidth("\xC3\xBC\xE2\x82\xAC"), 2U);  // u umlaut, euro sign.
  Table table({{"N"}, {"X"}});
  table.AddRow({"\xC3\xBC", "1"});
  EXPECT_EQ(table.ToText(), "N  X\n\xC3\xBC  1\n");
}

TEST(TableTest, PairsLineUpBehindTheLongestKey) {
  EXPECT_EQ(PairsText({{"cpu", "fast"}, {"memory", "much"}}, "  "),
            "  cpu     fast\n  memory  much\n");
}

}  // namespace
}  // namespace attndb::cli
