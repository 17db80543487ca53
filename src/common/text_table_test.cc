// Goal:   columns line up, and lines end where their text does.
// Method: a small table, byte by byte.
#include "common/text_table.h"

#include <gtest/gtest.h>

namespace attndb::internal {
namespace {

TEST(TextTableTest, ColumnsLineUp) {
  EXPECT_EQ(Table({{"name", "note", "bytes"}, {"a", "", "12"}, {"longer", "x", "3"}}, 2),
            "name    note  bytes\n"
            "a                12\n"
            "longer  x         3\n");
  EXPECT_EQ(Table({{"a", "b"}, {"long", ""}}, 2), "a     b\nlong\n");
}

TEST(TextTableTest, NumbersHaveTheirDecimals) {
  EXPECT_EQ(Number(12.3, 2), "12.30");
  EXPECT_EQ(Number(-0.26, 1), "-0.3");
  EXPECT_EQ(Number(1e15, 0), "1000000000000000");
}

}  // namespace
}  // namespace attndb::internal
