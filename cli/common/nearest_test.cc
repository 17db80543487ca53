// Goal:   a word that is nearly a name finds the name; other words find nothing.
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

TEST(NearestTest, ABeginningStandsForTheOneNameThatHasIt) {
  EXPECT_EQ(BegunBy("desc", kNames), "describe");
  EXPECT_EQ(BegunBy("--tok", kNames), "--tokens");
  EXPECT_EQ(BegunBy("d", kNames), "") << "one letter is an accident";
  EXPECT_EQ(BegunBy("--", kNames), "");
  EXPECT_EQ(BegunBy("", kNames), "");
  EXPECT_EQ(BegunBy("im", {std::vector<std::string>{"import", "image"}}), "");
}

TEST(NearestTest, NamesOfContextsAreFoundByCaseBeginningLettersAndParts) {
  const std::vector<std::string> names = {"contract-2", "Manual", "contract", "notes/may",
                                          "handbook"};
  using Names = std::vector<std::string>;
  EXPECT_EQ(NamesLike("con", names, 3), (Names{"contract", "contract-2"}));
  EXPECT_EQ(NamesLike("con", names, 1), Names{"contract"});
  EXPECT_EQ(NamesLike("manual", names, 3), Names{"Manual"});
  EXPECT_EQ(NamesLike("contrct", names, 3), Names{"contract"});
  EXPECT_EQ(NamesLike("may", names, 3), Names{"notes/may"});
  EXPECT_EQ(NamesLike("book", names, 3), Names{"handbook"});
  EXPECT_EQ(NamesLike("x", names, 3), Names{});
  EXPECT_EQ(NamesLike("", names, 3), Names{});
  EXPECT_EQ(NamesLike("frobnicate", names, 3), Names{});
}

TEST(NearestTest, WhatIsLikeNoneFindsNothing) {
  for (const char* word : {"", "x", "frobnicate", "bench", "--plan"}) {
    EXPECT_EQ(Nearest(word, kNames), "") << word;
  }
  EXPECT_EQ(Nearest("ls", {}), "");
}

}  // namespace
}  // namespace attndb::cli
