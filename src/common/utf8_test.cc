// Goal:   invalid UTF-8 is no character, and characters that a terminal acts upon are not visible.
// Method: each character of Unicode there and back; borders of lengths and ranges.
#include "common/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace attndb {
namespace {

std::string Encoded(uint32_t c) {
  if (c < 0x80) return {static_cast<char>(c)};
  std::string tail;
  uint32_t limit = 0x40;  // Below the limit, the first byte holds the remaining bits.
  for (; c >= limit; c >>= 6) {
    tail.insert(tail.begin(), static_cast<char>(0x80 | (c & 0x3F)));
    limit = tail.size() == 1 ? 0x20 : limit >> 1;
  }
  const uint32_t mark = 0xFF00U >> (tail.size() + 1);
  return static_cast<char>((mark & 0xFF) | c) + tail;
}

TEST(Utf8Test, EveryCharacterIsReadAsItIsWritten) {
  for (uint32_t c = 0; c <= 0x10FFFF; ++c) {
    const std::string text = Encoded(c) + "x";
    const Utf8Char found = FirstUtf8Char(text);
    if (c >= 0xD800 && c <= 0xDFFF) {
      ASSERT_EQ(found.num_bytes, 0u) << c;
    } else {
      ASSERT_EQ(found.code_point, c);
      ASSERT_EQ(found.num_bytes, text.size() - 1) << c;
    }
  }
}

TEST(Utf8Test, WhatIsNoUtf8IsNoCharacter) {
  for (const char* const text :
       {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xc3", "\xc3x", "\xe0\x9f\xbf", "\xe2\x82",
        "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff"}) {
    EXPECT_EQ(FirstUtf8Char(text).num_bytes, 0u) << text;
  }
  EXPECT_EQ(FirstUtf8Char("").num_bytes, 0u);
  EXPECT_EQ(FirstUtf8Char(std::string_view("\0", 1)).num_bytes, 1u);
}

TEST(Utf8Test, ATextIsUtf8IfAllOfItIs) {
  for (const std::string& text : {std::string(), std::string("a\0b", 3), std::string("z\xc3\xa4"),
                                  std::string("\xf0\x9f\x98\x80 x")}) {
    EXPECT_TRUE(IsUtf8(text)) << text;
  }
  for (const char* const text : {"\xff", "a\xff", "\xff z", "a\xc3", "\xc3\xa4\xed\xa0\x80"}) {
    EXPECT_FALSE(IsUtf8(text)) << text;
  }
}

TEST(Utf8Test, LettersAreVisibleAndControlsAreNot) {
  for (const uint32_t c : {0xE4u, 0x44Fu, 0x5D0u, 0x627u, 0x3B1u, 0x4E2Du, 0xAC00u, 0x1F600u}) {
    EXPECT_TRUE(IsVisible(c)) << c;
  }
  for (const uint32_t c : {0x1Bu, 0x85u, 0x9Bu, 0xA0u, 0xADu, 0x200Bu, 0x202Eu, 0x2028u, 0x2066u,
                           0x3000u, 0xE000u, 0xFEFFu, 0xFFFEu, 0x1FFFFu, 0xE0041u, 0x10FFFDu}) {
    EXPECT_FALSE(IsVisible(c)) << c;
  }
}

}  // namespace
}  // namespace attndb
