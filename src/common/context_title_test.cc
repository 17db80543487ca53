// Goal:   a title is one short line of whole characters, from any text. Characters that a terminal
//         or a page would act upon are refused by name.
// Method: borders of lengths, each kind of character, texts as people ask them.
#include "attndb/context_title.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/random.h"
#include "common/utf8.h"
#include "testing/matchers.h"
#include "testing/seed.h"

namespace attndb {
namespace {

using ::attndb::test::FailsWith;
using ::testing::HasSubstr;

TEST(ContextTitleTest, AnyLineIsATitle) {
  for (const std::string& title :
       {std::string(), std::string("What is a \"KV cache\"?"),
        std::string("Что это? 文書 😀 👩‍🔬"), std::string(256, 'a')}) {
    ATTNDB_EXPECT_OK(CheckContextTitle(title)) << title;
  }
}

TEST(ContextTitleTest, WhatIsNoLineIsRefusedByWhatWasFound) {
  const struct {
    std::string title;
    const char* found;
  } cases[] = {
      {std::string(257, 'a'), "title has 257 bytes, expected at most 256"},
      {"a\xc3", "title has a byte at 1 that is no UTF-8"},
      {"ab\xed\xa0\x80", "title has a byte at 2 that is no UTF-8"},
      {"two\nlines", "title has U+000A at byte 3, expected no control characters"},
      {std::string("a\0b", 3), "U+0000 at byte 1"},
      {"\x1b[31mred", "U+001B at byte 0"},
      {"\x7f", "U+007F at byte 0"},
      {"a\xc2\x9bz", "U+009B at byte 1"},
      {"a\xe2\x80\xa8z", "U+2028 at byte 1"},
      {"a\xe2\x80\xaez", "U+202E at byte 1"},
      {"a\xe2\x81\xa7z", "U+2067 at byte 1"},
  };
  for (const auto& [title, found] : cases) {
    EXPECT_THAT(CheckContextTitle(title),
                FailsWith(StatusCode::kInvalidArgument, HasSubstr(found)));
  }
}

TEST(ContextTitleTest, AShortTextIsItsTitle) {
  EXPECT_EQ(TitleOfText("What is a KV cache?"), "What is a KV cache?");
  EXPECT_EQ(TitleOfText("  two\r\n\n\tlines \x1b[31m of\xe2\x80\xaetext\n"),
            "two lines [31m of text");
  EXPECT_EQ(TitleOfText("caf\xc3\xa9 \xff!"), "café ?!");
  EXPECT_EQ(TitleOfText(std::string(80, 'a')), std::string(80, 'a'));
  EXPECT_EQ(TitleOfText(std::string(80, 'a') + "\n\n"), std::string(80, 'a'));
}

TEST(ContextTitleTest, ATextOfNothingVisibleHasNone) {
  for (const std::string& text : {std::string(), std::string(" \n\t "), std::string("\0\x01", 2),
                                  std::string("\xe2\x80\x8b \xe2\x80\x8b")}) {
    EXPECT_EQ(TitleOfText(text), "");
  }
}

TEST(ContextTitleTest, ALongTextIsCutBehindAWord) {
  EXPECT_EQ(TitleOfText("Tell me all that you know about the history of libraries", 30),
            "Tell me all that you know...");
  EXPECT_EQ(TitleOfText("Tell me all that you know abo ut", 30), "Tell me all that you know...");
  EXPECT_EQ(TitleOfText(std::string(81, 'a')), std::string(77, 'a') + "...");
  EXPECT_EQ(TitleOfText("a " + std::string(100, 'b')), "a " + std::string(75, 'b') + "...");
  EXPECT_EQ(TitleOfText("文書文書文書", 10), "文書...");
  EXPECT_EQ(TitleOfText("long", 2), "..");
}

TEST(ContextTitleTest, EachTextHasATitleThatIsTaken) {
  Random random(test::SeedOr(1));
  for (int i = 0; i < 2000; ++i) {
    std::string text(random.Uniform(300), '\0');
    for (char& c : text) c = static_cast<char>(random.Uniform(256));
    for (const size_t max_bytes : {size_t{0}, size_t{1}, size_t{7}, size_t{80}, size_t{256}}) {
      const std::string title = TitleOfText(text, max_bytes);
      EXPECT_LE(title.size(), max_bytes);
      ATTNDB_EXPECT_OK(CheckContextTitle(title));
      EXPECT_EQ(TitleOfText(title, max_bytes), title);
    }
  }
}

}  // namespace
}  // namespace attndb
