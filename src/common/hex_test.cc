// Goal:   one text for one value, and nothing else is taken for it.
// Method: round trips and near misses.
#include "common/hex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/coding.h"

namespace attndb {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;

TEST(Hex, EncodesAndDecodesBytes) {
  const std::vector<std::byte> bytes = {std::byte{0}, std::byte{0x9a}, std::byte{0xff}};
  EXPECT_EQ(HexEncode(bytes), "009aff");
  EXPECT_THAT(HexDecode("009aFF"), Optional(bytes));
  EXPECT_THAT(HexDecode(""), Optional(ElementsAre()));
}

TEST(Hex, RefusesOddLengthsAndOtherCharacters) {
  for (const char* text : {"0", "0g", "+1", "0x", " 1", "1 "}) {
    EXPECT_EQ(HexDecode(text), std::nullopt) << text;
  }
}

TEST(Hex, IdsHaveExactlyOneName) {
  for (const uint64_t id : {uint64_t{0}, uint64_t{42}, uint64_t{0x0123456789abcdef}, UINT64_MAX}) {
    EXPECT_EQ(ParseHexU64(HexU64(id)), id);
  }
  EXPECT_EQ(HexU64(0x2a), "000000000000002a");
  EXPECT_EQ(HexU32(0xbeef), "0000beef");
  for (const char* text : {"", "2a", "000000000000002A", "0000000000000002a", "00000000000000-1"}) {
    EXPECT_EQ(ParseHexU64(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace attndb
