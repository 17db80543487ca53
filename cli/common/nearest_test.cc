// Goal:   what is nearly a name finds it, and what is none finds nothing.
// Method: the words of the command line.
#include "cli/common/nearest.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace attndb::cli {
namespace {

const std::vector<std::string> kNames = {"import", "export", "ask", "ls", "describe", "--tokens"};

TEST(NearestTest, AFewLettersMayBeWrong) {
  EXPECT_EQ(Nearest("lst", kNames), "ls");
  EXPECT_EQ(Nearest("improt", kNames), "import");
  EXPECT_EQ(Nearest("descrbe", kNames), "describe");
  EXPECT_EQ(Nearest("axk", kNames), "ask");
  EXPECT_EQ(Nearest("--token", kNames), "--tokens");
  EXPECT_EQ(Nearest("ls", kNames), "ls");
}

TEST(NearestTest, TheNearestIsTakenAndOfEquallyNearTheFirst) {
  EXPECT_EQ(Nearest("mport", kNames), "import");
  EXPECT_EQ(Nearest("xport", kNames), "export");
  EXPECT_EQ(Nearest("iport", {std::vector<std::string>{"export", "import"}}), "import");
}

TEST(NearestTest, WhatIsLikeNoneFindsNothing) {
  for (const char* word : {"", "x", "frobnicate", "bench", "--plan"}) {
    EXPECT_EQ(Nearest(word, kNames), "") << word;
  }
  EXPECT_EQ(Nearest("ls", {}), "");
}

}  // namespace
}  // namespace attndb::cli
