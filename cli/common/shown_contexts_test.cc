// Goal:   a conversation is shown once, a branch separately, and a named context always. A
//         conversation is shown with its title and its name.
// Method: made-up lists of contexts that continue each other.
#include "cli/common/shown_contexts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace attndb::cli {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

ContextInfo Turn(int64_t id, int64_t continues, const std::string& name, const char* title = "") {
  ContextInfo context;
  context.id = static_cast<ContextId>(id);
  context.continues = static_cast<ContextId>(continues);
  context.name = name;
  context.title = title;
  return context;
}

std::vector<int64_t> Shown(std::vector<ContextInfo> contexts) {
  std::vector<int64_t> ids;
  for (const ContextInfo& context : NewestTurns(std::move(contexts))) {
    ids.push_back(static_cast<int64_t>(context.id));
  }
  return ids;
}

TEST(ShownContextsTest, AConversationIsShownByItsNewestTurn) {
  EXPECT_THAT(Shown({Turn(1, 0, "turn-a"), Turn(2, 1, "turn-b"), Turn(3, 0, "turn-x"),
                     Turn(4, 2, "turn-c")}),
              ElementsAre(3, 4));
  EXPECT_THAT(Shown({Turn(1, 0, ""), Turn(2, 1, "")}), ElementsAre(2));
  EXPECT_THAT(Shown({}), IsEmpty());
}

TEST(ShownContextsTest, ATurnThatTwoContinueIsABranch) {
  EXPECT_THAT(Shown({Turn(1, 0, "turn-a"), Turn(2, 1, "turn-b"), Turn(3, 2, "turn-c"),
                     Turn(4, 2, "turn-d"), Turn(5, 4, "turn-e")}),
              ElementsAre(2, 3, 5));
}

TEST(ShownContextsTest, WhatAPersonHasNamedIsShown) {
  EXPECT_THAT(Shown({Turn(1, 0, "book"), Turn(2, 1, "turn-b"), Turn(3, 2, "book.chat"),
                     Turn(4, 3, "turn-d"), Turn(5, 4, "turn-e")}),
              ElementsAre(1, 3, 5));
}

TEST(ShownContextsTest, ATitleStandsInThePlaceOfATurnsName) {
  EXPECT_EQ(ShownName(Turn(7, 0, "turn-8d9a", "What is it?")), "#7 What is it?");
  EXPECT_EQ(ShownName(Turn(7, 0, "", "What is it?")), "#7 What is it?");
  EXPECT_EQ(ShownName(Turn(7, 0, "turn-8d9a")), "turn-8d9a");
  EXPECT_EQ(ShownName(Turn(7, 0, "")), "#7");
  EXPECT_EQ(ShownName(Turn(7, 0, "book", "What is it?")), "book");
}

}  // namespace
}  // namespace attndb::cli
