// Goal:   counts and sizes read as people write them.
// Method: tables of values at and around each change of unit.
#include "attndb/units.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace attndb {
namespace {

TEST(Units, BytesChangeUnitWhereTheTextWould) {
  const std::vector<std::pair<uint64_t, std::string>> cases = {{0, "0 B"},
                                                               {1, "1 B"},
                                                               {1023, "1023 B"},
                                                               {1024, "1.0 KiB"},
                                                               {1536, "1.5 KiB"},
                                                               {1048524, "1023.9 KiB"},
                                                               {1048575, "1.0 MiB"},
                                                               {141767475, "135.2 MiB"},
                                                               {UINT64_MAX, "16.0 EiB"}};
  for (const auto& [bytes, text] : cases) EXPECT_EQ(FormatBytes(bytes), text) << bytes;
}

TEST(Units, CountsHaveThousandsSeparators) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(1000), "1,000");
  EXPECT_EQ(FormatCount(1234567), "1,234,567");
  EXPECT_EQ(FormatCount(UINT64_MAX), "18,446,744,073,709,551,615");
}

TEST(Units, OneThingIsSingular) {
  EXPECT_EQ(Counted(0, "segment"), "0 segments");
  EXPECT_EQ(Counted(1, "segment"), "1 segment");
  EXPECT_EQ(Counted(2000, "kv head"), "2,000 kv heads");
}

}  // namespace
}  // namespace attndb
