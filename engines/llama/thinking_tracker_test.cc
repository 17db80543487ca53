// Goal:   a thinking is found wherever its marks are, its tokens are counted, and the tokens of its
//         end are forced once, between two characters.
// Method: replies as lists of tokens' bytes. Tokens that end a thinking have ids from 100 on.
#include "engines/llama/thinking_tracker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace attndb::llama {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Pieces = std::vector<std::string>;

const Pieces kEnd = {" (enough)", "</", "think>"};
const std::vector<TokenId> kEndTokens = {100, 101, 102};

ThinkingMarks Marks() { return {.start = "<think>", .ends = {"</think>"}}; }
ThinkingTracker Limited(uint32_t budget, ThinkingMarks marks = Marks()) {
  return {std::move(marks), budget, kEndTokens};
}

// The reply that the model would write, with the tokens that are forced in it.
Pieces Written(ThinkingTracker* tracker, const Pieces& model) {
  Pieces reply;
  for (size_t next = 0; next < model.size() || tracker->forced();) {
    const std::optional<TokenId> forced = tracker->forced();
    reply.push_back(forced ? kEnd.at(static_cast<size_t>(*forced - 100)) : model[next++]);
    tracker->Take(reply.back());
  }
  return reply;
}
Pieces Within(uint32_t budget, const Pieces& model) {
  ThinkingTracker tracker = Limited(budget);
  return Written(&tracker, model);
}

TEST(ThinkingTrackerTest, AThinkingEndsWhenItsBudgetIsUsedUp) {
  EXPECT_THAT(Within(2, {"<think>", "a", "b", "c"}),
              ElementsAre("<think>", "a", "b", " (enough)", "</", "think>", "c"));
  EXPECT_THAT(Within(1, {"<think>", "a", "b"}),
              ElementsAre("<think>", "a", " (enough)", "</", "think>", "b"));
  EXPECT_THAT(Within(0, {"<think>", "a"}),
              ElementsAre("<think>", " (enough)", "</", "think>", "a"));
}

TEST(ThinkingTrackerTest, AThinkingThatEndsInTimeIsLeftAlone) {
  const Pieces short_one = {"<think>", "a", "</think>", "b", "c", "d", "e"};
  EXPECT_EQ(Within(2, short_one), short_one);
  EXPECT_EQ(Within(100, short_one), short_one);
  // The token that ends it does not count.
  const Pieces just = {"<think>", "a", "b", "</think>", "c"};
  EXPECT_EQ(Within(3, just), just);
}

TEST(ThinkingTrackerTest, TokensBetweenTheMarksAreCounted) {
  const auto count = [](ThinkingTracker tracker, const Pieces& model) {
    Written(&tracker, model);
    return tracker.num_thinking_tokens();
  };
  const ThinkingTracker any(Marks(), std::nullopt, {});
  EXPECT_EQ(count(any, {"a", "b"}), 0u);
  EXPECT_EQ(count(any, {"<think>", "a", "b", "</think>", "c"}), 2u);
  EXPECT_EQ(count(any, {"<", "think", ">", "a", "</", "think", ">", "c", "d"}), 1u);
  EXPECT_EQ(count(any, {"<think>", "a", "</"}), 2u) << "a mark that does not come";
  EXPECT_EQ(count(any, {"<think>", "a", "</think>", "b", "<think>", "c", "d"}), 3u);
  EXPECT_EQ(count(any, {"<think>", "</think>"}), 0u);
  // A budget's message is thinking, too.
  EXPECT_EQ(count(Limited(2), {"<think>", "a", "b", "c"}), 3u);
  EXPECT_EQ(count(Limited(0), {"<think>", "a"}), 1u);
  ThinkingTracker begun = any;
  for (const char* piece : {"<think>", "\n"}) begun.TakeBefore(piece);
  EXPECT_EQ(count(begun, {"a", "</think>", "b"}), 1u) << "the prompt's are none of the reply";
}

TEST(ThinkingTrackerTest, AThinkingMayBeEndedFromOutside) {
  ThinkingTracker tracker(Marks(), std::nullopt, kEndTokens);
  tracker.End();
  EXPECT_EQ(tracker.forced(), std::nullopt) << "it does not think";
  for (const char* piece : {"<think>", "a"}) tracker.Take(piece);
  tracker.End();
  EXPECT_THAT(Written(&tracker, {"b"}), ElementsAre(" (enough)", "</", "think>", "b"));
  // The next thinking is free again.
  EXPECT_THAT(Written(&tracker, {"<think>", "c"}), ElementsAre("<think>", "c"));

  ThinkingTracker inside = Limited(100);
  for (const char* piece : {"<think>", "a\xC3"}) inside.Take(piece);
  inside.End();
  EXPECT_THAT(Written(&inside, {"\xA4", "b"}),
              ElementsAre("\xA4", " (enough)", "</", "think>", "b"));

  ThinkingTracker unknown(Marks(), std::nullopt, {});
  unknown.Take("<think>");
  unknown.End();
  EXPECT_EQ(unknown.forced(), std::nullopt);
}

TEST(ThinkingTrackerTest, AReplyThatNeverThinksHasNoBudget) {
  const Pieces plain = {"a", "</think>", "b", "<thin", "c", "d"};
  EXPECT_EQ(Within(0, plain), plain);
  EXPECT_EQ(Within(1, plain), plain);
  ThinkingTracker unknown = Limited(0, {.start = "", .ends = {"</think>"}});
  EXPECT_EQ(Written(&unknown, {"<think>", "a"}), (Pieces{"<think>", "a"}));
  EXPECT_FALSE(unknown.thinks());
}

TEST(ThinkingTrackerTest, WithoutTokensForItsEndNothingIsForced) {
  ThinkingTracker tracker(Marks(), 0, {});
  tracker.Take("<think>");
  EXPECT_TRUE(tracker.thinks());
  EXPECT_EQ(tracker.forced(), std::nullopt);
  ThinkingTracker any(Marks(), std::nullopt, kEndTokens);
  EXPECT_EQ(Written(&any, {"<think>", "a", "b"}), (Pieces{"<think>", "a", "b"}));
}

TEST(ThinkingTrackerTest, MarksAreFoundHoweverTheyAreSplit) {
  for (const Pieces& start : {Pieces{"<", "think", ">"}, Pieces{"<think", ">a"},
                              Pieces{"x\n<", "th", "ink>\n"}, Pieces{"<<think>"}}) {
    SCOPED_TRACE(start[0]);
    ThinkingTracker tracker = Limited(2);
    for (const std::string& piece : start) {
      EXPECT_FALSE(tracker.thinks());
      tracker.Take(piece);
    }
    EXPECT_TRUE(tracker.thinks());
    for (const char* piece : {"b", "</", "th"}) tracker.Take(piece);  // The last two: forced.
    EXPECT_TRUE(tracker.thinks());
  }
  for (const Pieces& end : {Pieces{"</", "think", ">"}, Pieces{".</think", ">\n"},
                            Pieces{"</think>\n\nHello"}, Pieces{"</</think>"}}) {
    SCOPED_TRACE(end[0]);
    ThinkingTracker tracker = Limited(100);
    tracker.Take("<think>");
    for (const std::string& piece : end) {
      EXPECT_TRUE(tracker.thinks());
      tracker.Take(piece);
    }
    EXPECT_FALSE(tracker.thinks());
    EXPECT_EQ(tracker.num_end_tokens(), end.size());
  }
}

TEST(ThinkingTrackerTest, TokensOfTheEndAreThoseWithBytesOfIt) {
  ThinkingTracker tracker({.start = "<think>", .ends = {"\n</think>", "</think>", "<call>"}}, 100,
                          kEndTokens);
  for (const char* piece : {"<think>", "a", "b\n", "</thi", "nk>"}) tracker.Take(piece);
  EXPECT_FALSE(tracker.thinks());
  EXPECT_EQ(tracker.num_end_tokens(), 3u) << "the longest mark counts";
  for (const char* piece : {"<think>", "a", "x</thi", "nk>"}) tracker.Take(piece);
  EXPECT_FALSE(tracker.thinks());
  EXPECT_EQ(tracker.num_end_tokens(), 2u);
  for (const char* piece : {"<think>", "</think", "<call>"}) tracker.Take(piece);
  EXPECT_FALSE(tracker.thinks());
  EXPECT_EQ(tracker.num_end_tokens(), 1u);
  for (const char* piece : {"<think>", "<call></think>"}) tracker.Take(piece);
  EXPECT_FALSE(tracker.thinks());
  EXPECT_EQ(tracker.num_end_tokens(), 1u) << "the first mark ends it";
}

TEST(ThinkingTrackerTest, AForcedEndHasItsOwnTokens) {
  ThinkingTracker tracker = Limited(1);
  for (const char* piece : {"<think>", "a", " (enough)", "</"}) tracker.Take(piece);
  EXPECT_EQ(tracker.forced(), 102);
  tracker.Take("think>");
  EXPECT_FALSE(tracker.thinks());
  EXPECT_EQ(tracker.num_end_tokens(), 2u);
}

TEST(ThinkingTrackerTest, AMessageWithAMarkIsForcedToItsEnd) {
  ThinkingTracker tracker = Limited(0);
  for (const char* piece : {"<think>", "So.</think>"}) tracker.Take(piece);
  EXPECT_TRUE(tracker.thinks());
  EXPECT_EQ(tracker.forced(), 101);
}

TEST(ThinkingTrackerTest, EachThinkingHasItsBudget) {
  EXPECT_THAT(Within(2, {"<think>", "a", "</think>", "b", "c", "<think>", "d", "e", "f"}),
              ElementsAre("<think>", "a", "</think>", "b", "c", "<think>", "d", "e", " (enough)",
                          "</", "think>", "f"));
  // Both in one token.
  ThinkingTracker tracker = Limited(1);
  for (const char* piece : {"<think>", "</think><think>", "a"}) tracker.Take(piece);
  EXPECT_EQ(tracker.forced(), 100);
}

TEST(ThinkingTrackerTest, ThePromptMayBeginTheThinking) {
  ThinkingTracker tracker = Limited(2);
  for (const char* piece : {"assistant", "\n", "<think", ">"}) tracker.TakeBefore(piece);
  EXPECT_TRUE(tracker.thinks());
  EXPECT_THAT(Written(&tracker, {"a", "b", "c"}),
              ElementsAre("a", "b", " (enough)", "</", "think>", "c"));

  // The tokens of a thinking that stand in the prompt count, too.
  ThinkingTracker begun = Limited(2);
  for (const char* piece : {"<think>", "\n"}) begun.TakeBefore(piece);
  EXPECT_THAT(Written(&begun, {"a", "b"}), ElementsAre("a", " (enough)", "</", "think>", "b"));

  // A mark may begin in the prompt, and end in the reply.
  ThinkingTracker across = Limited(1);
  across.TakeBefore("<|channel|><thi");
  EXPECT_THAT(Written(&across, {"nk>", "a", "b"}),
              ElementsAre("nk>", "a", " (enough)", "</", "think>", "b"));
}

TEST(ThinkingTrackerTest, NothingIsForcedInThePrompt) {
  ThinkingTracker closed = Limited(0);
  for (const char* piece : {"<think>", "\n\n", "</think>", "\n\n"}) closed.TakeBefore(piece);
  EXPECT_FALSE(closed.thinks());
  EXPECT_EQ(Written(&closed, {"a", "b"}), (Pieces{"a", "b"}));

  ThinkingTracker open = Limited(0);
  for (const char* piece : {"<think>", "\n"}) open.TakeBefore(piece);
  EXPECT_THAT(Written(&open, {"a"}), ElementsAre(" (enough)", "</", "think>", "a"));
}

TEST(ThinkingTrackerTest, TheEndIsForcedBehindAWholeCharacter) {
  // The euro sign and an emoji, byte for byte.
  EXPECT_THAT(Within(1, {"<think>", "\xE2", "\x82", "\xAC", "b"}),
              ElementsAre("<think>", "\xE2", "\x82", "\xAC", " (enough)", "</", "think>", "b"));
  EXPECT_THAT(
      Within(2, {"<think>", "a", "b\xF0\x9F", "\x98\x80", "c"}),
      ElementsAre("<think>", "a", "b\xF0\x9F", "\x98\x80", " (enough)", "</", "think>", "c"));
  // Bytes that are never a character.
  EXPECT_THAT(
      Within(1, {"<think>", "\xF0", "\xF0", "\xF0", "\xF0", "\xF0"}),
      ElementsAre("<think>", "\xF0", "\xF0", "\xF0", "\xF0", " (enough)", "</", "think>", "\xF0"));
  // It may end by itself meanwhile.
  const Pieces itself = {"<think>", "\xC3", "\xA4</think>", "b"};
  EXPECT_EQ(Within(1, itself), itself);
}

TEST(ThinkingTrackerTest, AnEndThatCantComeIsGivenUp) {
  ThinkingTracker tracker = Limited(1);
  for (const char* piece : {"<think>", "a"}) tracker.Take(piece);
  EXPECT_EQ(tracker.forced(), 100);
  tracker.GiveUp();
  EXPECT_EQ(Written(&tracker, {"b", "c", "d"}), (Pieces{"b", "c", "d"}));
  EXPECT_TRUE(tracker.thinks());
  tracker.Take("</think>");
  EXPECT_FALSE(tracker.thinks());
}

TEST(ThinkingTrackerTest, AMarkThatMayNotBeginAThinkingIsText) {
  ThinkingTracker tracker = Limited(0);
  tracker.Take("<thi");
  tracker.Take("nk>", /*may_begin=*/false);
  EXPECT_FALSE(tracker.thinks());
  tracker.Take("a");
  EXPECT_FALSE(tracker.thinks());
}

TEST(ThinkingTrackerTest, AThinkingInFrontIsTheOnlyOne) {
  ThinkingMarks in_front = Marks();
  in_front.only_in_front = true;
  const Pieces json = {"{\"a\":\"", "<think>", "b"};
  ThinkingTracker tracker = Limited(0, in_front);
  EXPECT_EQ(Written(&tracker, json), json);

  ThinkingTracker blank = Limited(0, in_front);
  EXPECT_THAT(Written(&blank, {" \n", " <think>", "\"<think>"}),
              ElementsAre(" \n", " <think>", " (enough)", "</", "think>", "\"<think>"));

  ThinkingTracker opened = Limited(1, in_front);
  opened.TakeBefore("<think>");
  EXPECT_THAT(Written(&opened, {"a", "{\"<think>", "b"}),
              ElementsAre("a", " (enough)", "</", "think>", "{\"<think>", "b"));

  ThinkingTracker across = Limited(0, in_front);
  across.TakeBefore("<thi");
  EXPECT_THAT(Written(&across, {"nk>"}), ElementsAre("nk>", " (enough)", "</", "think>"));
}

TEST(ThinkingTrackerTest, LongRepliesAreNotKept) {
  ThinkingTracker tracker = Limited(1'000'000);
  tracker.Take("<think>");
  for (int i = 0; i < 100'000; ++i) tracker.Take(i % 7 == 0 ? "" : "words <think> and ");
  EXPECT_TRUE(tracker.thinks());
  tracker.Take("</think>");
  EXPECT_FALSE(tracker.thinks());
  EXPECT_THAT(Written(&tracker, {}), IsEmpty());
}

}  // namespace
}  // namespace attndb::llama
