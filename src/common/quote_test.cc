// Goal:   whatever a file holds, a message that quotes it is one short line of plain text.
#include "common/quote.h"

#include <gtest/gtest.h>

namespace attndb {
namespace {

TEST(QuoteTest, PlainTextStaysAsItIs) {
  EXPECT_EQ(Quoted("layers.0.k"), "'layers.0.k'");
  EXPECT_EQ(Quoted(""), "''");
}

TEST(QuoteTest, WhatATerminalMightObeyIsReplaced) {
  EXPECT_EQ(Quoted("a\x1b[2Jb\n\xc2\x9b\xe2\x80\xae"), "'a?[2Jb\?\?\?'");
  EXPECT_EQ(Quoted(std::string_view("\0\x7f", 2)), "'\?\?'");
}

TEST(QuoteTest, LettersOfEveryLanguageStay) {
  EXPECT_EQ(Quoted("яблоко.txt 文書"), "'яблоко.txt 文書'");
  EXPECT_EQ(Quoted("a\xff\xc3"), "'a\?\?'");
}

TEST(QuoteTest, LongTextIsCut) {
  EXPECT_EQ(Quoted(std::string(80, 'x')), "'" + std::string(80, 'x') + "'");
  EXPECT_EQ(Quoted(std::string(81, 'x')), "'" + std::string(80, 'x') + "...'");
  EXPECT_EQ(Quoted(std::string(79, 'x') + "я"), "'" + std::string(79, 'x') + "...'");
}

}  // namespace
}  // namespace attndb
