// Goal:   deltas add up to the reading, and a reading that takes something back gives none.
// Method: readings by hand.
#include "server/chat/reply_deltas.h"

#include <gtest/gtest.h>

#include <string>

namespace attndb::server {
namespace {

ReplyDeltas Make() {
  return ReplyDeltas([count = 0]() mutable { return "id-" + std::to_string(count++); });
}

TEST(ReplyDeltasTest, ADeltaIsWhatIsNew) {
  ReplyDeltas deltas = Make();
  const auto first = deltas.Next({.content = "a", .reasoning = "so"}, false);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->reasoning, "so");
  EXPECT_EQ(first->content, "a");
  const auto second = deltas.Next({.content = "ab", .reasoning = "so"}, false);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->reasoning, "");
  EXPECT_EQ(second->content, "b");
  const auto third = deltas.Next({.content = "ab", .reasoning = "so"}, false);
  ASSERT_TRUE(third);
  EXPECT_TRUE(third->empty());
}

TEST(ReplyDeltasTest, ACallComesOnceItsNameIsWhole) {
  ReplyDeltas deltas = Make();
  EXPECT_TRUE(deltas.Next({.calls = {{.name = "get"}}}, false)->empty());
  const auto begun = deltas.Next({.calls = {{.name = "get_time", .arguments = "{"}}}, false);
  ASSERT_EQ(begun->calls.size(), 1u);
  EXPECT_EQ(begun->calls[0].index, 0u);
  EXPECT_EQ(begun->calls[0].id, "id-0");
  EXPECT_EQ(begun->calls[0].name, "get_time");
  EXPECT_EQ(begun->calls[0].arguments, "{");
  const auto more = deltas.Next(
      {.calls = {{.name = "get_time", .arguments = "{}"}, {.name = "ad"}}}, /*is_whole=*/false);
  ASSERT_EQ(more->calls.size(), 1u) << "the second call's name may go on";
  EXPECT_EQ(more->calls[0].id, "");
  EXPECT_EQ(more->calls[0].name, "");
  EXPECT_EQ(more->calls[0].arguments, "}");
  const auto whole = deltas.Next(
      {.calls = {{.name = "get_time", .arguments = "{}"}, {.name = "add"}}}, /*is_whole=*/true);
  ASSERT_EQ(whole->calls.size(), 1u);
  EXPECT_EQ(whole->calls[0].index, 1u);
  EXPECT_EQ(whole->calls[0].id, "id-1");
  EXPECT_EQ(whole->calls[0].name, "add");
}

TEST(ReplyDeltasTest, AnIdOfTheModelIsKept) {
  ReplyDeltas deltas = Make();
  const auto delta =
      deltas.Next({.calls = {{.id = "call-7", .name = "add", .arguments = "{"}}}, false);
  EXPECT_EQ(delta->calls[0].id, "call-7");
}

TEST(ReplyDeltasTest, AnIdThatComesLateChangesNothing) {
  ReplyDeltas deltas = Make();
  EXPECT_EQ(deltas.Next({.calls = {{.name = "add", .arguments = "{"}}}, false)->calls[0].id,
            "id-0");
  const auto late =
      deltas.Next({.calls = {{.id = "late", .name = "add", .arguments = "{}"}}}, true);
  ASSERT_EQ(late->calls.size(), 1u);
  EXPECT_EQ(late->calls[0].id, "");
  EXPECT_EQ(deltas.given().calls[0].id, "id-0");
}

TEST(ReplyDeltasTest, AReadingThatTakesSomethingBackGivesNothing) {
  const llama::ReadReply given = {
      .content = "ab", .reasoning = "so", .calls = {{.name = "add", .arguments = "{\"a\""}}};
  for (int i = 0; i < 5; ++i) {
    ReplyDeltas deltas = Make();
    ASSERT_TRUE(deltas.Next(given, false));
    llama::ReadReply other = given;
    if (i == 0) other.content = "a";
    if (i == 1) other.reasoning = "sa";
    if (i == 2) other.calls.clear();
    if (i == 3) other.calls[0].name = "adds";
    if (i == 4) other.calls[0].arguments = "{\"b\"";
    EXPECT_FALSE(deltas.Next(other, true)) << i;
    const auto next = deltas.Next(given, true);
    ASSERT_TRUE(next) << "nothing was noted";
    EXPECT_TRUE(next->empty());
  }
}

}  // namespace
}  // namespace attndb::server
