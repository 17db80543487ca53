#include "engines/llama/text_stream.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "testing/seed.h"

namespace attndb::llama {
namespace {

TEST(TextStreamTest, GivesWholeCharactersOnly) {
  TextStream stream({});
  EXPECT_EQ(stream.Push("a\xE2\x82"), "a");  // The euro sign, in parts.
  EXPECT_EQ(stream.Push("\xAC"
                        "b\xF0\x9F"),
            "\xE2\x82\xAC"
            "b");
  EXPECT_EQ(stream.Push("\x98\x80"), "\xF0\x9F\x98\x80");
  EXPECT_EQ(stream.Finish(), "");
}

TEST(TextStreamTest, AnUnfinishedCharacterIsReplacedAtTheEnd) {
  TextStream stream({});
  EXPECT_EQ(stream.Push("x\xC3"), "x");
  EXPECT_EQ(stream.Finish(), "\xEF\xBF\xBD");
  EXPECT_EQ(stream.text(), "x\xEF\xBF\xBD");
}

TEST(TextStreamTest, StopsBeforeTheStopString) {
  TextStream stream({"END", ""});
  EXPECT_EQ(stream.Push("one E"), "one ");
  EXPECT_EQ(stream.Push("N"), "");
  EXPECT_FALSE(stream.stopped());
  EXPECT_EQ(stream.Push("D more"), "");
  EXPECT_TRUE(stream.stopped());
  EXPECT_EQ(stream.Push("and more"), "");
  EXPECT_EQ(stream.Finish(), "");
  EXPECT_EQ(stream.text(), "one ");
}

TEST(TextStreamTest, WhatOnlyLookedLikeAStopStringIsGivenOut) {
  TextStream stream({"abac"});
  std::string text;
  for (const char* piece : {"ab", "a", "bab", "a", "x"}) text += stream.Push(piece);
  text += stream.Finish();
  EXPECT_EQ(text,
            "ababab"
            "ax");
  EXPECT_FALSE(stream.stopped());
}

TEST(TextStreamTest, TheEarliestOfSeveralStopStringsCounts) {
  TextStream stream({"world", "lo w"});
  EXPECT_EQ(stream.stop(), "");
  EXPECT_EQ(stream.Push("hello world"), "hel");
  EXPECT_TRUE(stream.stopped());
  EXPECT_EQ(stream.stop(), "lo w");
}

// Goal:   cutting a text into pieces anywhere changes nothing.
// Method: random cuts of a text with characters of 1 to 4 bytes; the model is std::string::find.
TEST(TextStreamTest, CutsDoNotMatter) {
  std::mt19937_64 random(::attndb::test::SeedOr(3));
  const std::string text = "na\xC3\xAFve \xE2\x82\xAC \xF0\x9F\x98\x80 stop stop. \xC3\xA9nd";
  for (int round = 0; round < 500; ++round) {
    const std::string stop = round % 2 == 0 ? "stop." : "never";
    TextStream stream({stop});
    std::string out;
    for (size_t at = 0; at < text.size();) {
      const size_t length = 1 + random() % 4;
      out += stream.Push(text.substr(at, length));
      at += length;
    }
    out += stream.Finish();
    ASSERT_EQ(out, text.substr(0, text.find(stop)));
    ASSERT_EQ(stream.text(), out);
  }
}

}  // namespace
}  // namespace attndb::llama
