// Goal:   passes with tokens of prompts take on the mean at most so many times as long as those
//         without took, however deep the prompts are, however replies deepen, and whatever was
//         misjudged; prompts come to an end; alone they take all.
// Method: passes of one prompt beside replies whose times are given: fixed ones, and ones that grow
//         with the tokens before them.
#include "server/batch/pass_times.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace attndb::server {
namespace {

constexpr uint64_t kMost = 512;

// What the next pass takes of a lone prompt that has `most` tokens left.
uint64_t TokensOf(PassTimes* times, uint64_t num_replies, uint64_t most) {
  const PromptRoom room = times->Room(num_replies, most);
  return room.tokens == most || room.tokens >= room.chunk ? room.tokens : 0;
}

// Passes without prompts, each of so many seconds, until one may take tokens: how many.
uint64_t PassesSaved(PassTimes* times, uint64_t num_replies, double seconds) {
  for (uint64_t num_passes = 0; num_passes < 1000; ++num_passes) {
    if (TokensOf(times, num_replies, kMost) > 0) return num_passes;
    times->Learn(num_replies, 0, seconds);
  }
  ADD_FAILURE() << "no pass takes any";
  return 0;
}

// Times with a factor of 2 that know replies of so many seconds a pass, and a prompt's token.
PassTimes Known(uint64_t num_replies, double reply_seconds, double token_seconds) {
  PassTimes times(2);
  times.Learn(0, 100, 100 * token_seconds);
  for (int i = 0; i < 9; ++i) times.Learn(num_replies, 0, reply_seconds);
  return times;
}

TEST(PassTimesTest, PromptsAloneTakeAll) {
  PassTimes times(2);
  EXPECT_EQ(TokensOf(&times, 0, kMost), kMost);
  times.Learn(3, 0, 0.02);
  EXPECT_EQ(TokensOf(&times, 0, kMost), kMost);
  times.Learn(0, 512, 5);
  EXPECT_EQ(TokensOf(&times, 0, kMost), kMost);
  EXPECT_NEAR(times.prompt_token_seconds(), 5.0 / 512, 1e-12);
}

TEST(PassTimesTest, BesideRepliesOfUnknownTimeNoneIsRun) {
  PassTimes times(2);
  times.Learn(0, 512, 0.5);
  EXPECT_EQ(TokensOf(&times, 1, kMost), 0u);
  times.Learn(1, 0, 0.02);
  EXPECT_GT(TokensOf(&times, 1, kMost), 0u);
  EXPECT_EQ(TokensOf(&times, 2, kMost), 0u) << "two take longer than one";
  times.Learn(2, 0, 0.03);
  EXPECT_GT(TokensOf(&times, 2, kMost), 0u);
  EXPECT_EQ(TokensOf(&times, 1, kMost), 0u) << "what one took is long ago";
}

TEST(PassTimesTest, UntilATokenIsMeasuredPromptsTakeAnEighth) {
  PassTimes times(2);
  times.Learn(1, 0, 0.02);
  EXPECT_EQ(TokensOf(&times, 1, kMost), kMost / 8);
  EXPECT_EQ(TokensOf(&times, 1, 3), 1u);
}

TEST(PassTimesTest, WhereAPassHasRoomForAChunkItTakesAsManyAsItHasRoomFor) {
  PassTimes times = Known(3, 0.026, 0.001);
  EXPECT_EQ(TokensOf(&times, 3, kMost), 24u) << "19 of 20 parts of 26 ms";
  EXPECT_EQ(TokensOf(&times, 3, 20), 20u) << "not more than there are";
}

TEST(PassTimesTest, AChunkIsSavedFor) {
  PassTimes times = Known(3, 0.026, 0.005);  // Room for 4.9 tokens a pass.
  for (const uint64_t num : {0U, 0U, 0U, 19U}) {
    EXPECT_EQ(TokensOf(&times, 3, kMost), num);
    times.Learn(3, num, 0.026 + 0.005 * static_cast<double>(num));
  }
  EXPECT_EQ(TokensOf(&times, 3, kMost), 0u) << "it is spent";
}

TEST(PassTimesTest, TheLastTokensOfAPromptDoNotWaitForAChunk) {
  PassTimes times = Known(3, 0.026, 0.005);
  EXPECT_EQ(TokensOf(&times, 3, 4), 4u);
  EXPECT_EQ(TokensOf(&times, 3, 9), 0u);
  times.Learn(3, 0, 0.026);
  EXPECT_EQ(TokensOf(&times, 3, 9), 9u);
}

TEST(PassTimesTest, AChunkIsNoMoreThanAFewPassesSave) {
  PassTimes times = Known(1, 0.01, 0.01);  // Room for .95 of a token a pass.
  EXPECT_EQ(PassesSaved(&times, 1, 0.01), 15u);
  EXPECT_EQ(TokensOf(&times, 1, kMost), 15u) << "16 times .95";
}

TEST(PassTimesTest, ATokenThatTakesMoreThanAFewPassesSaveIsRunWhenItWasSavedFor) {
  PassTimes times = Known(1, 0.001, 0.05);
  EXPECT_NEAR(static_cast<double>(PassesSaved(&times, 1, 0.001)), 0.05 / 0.00095, 1.5);
  EXPECT_EQ(TokensOf(&times, 1, kMost), 1u);
}

TEST(PassTimesTest, WhatWasMisjudgedIsPaidBack) {
  PassTimes times = Known(1, 0.02, 0.001);
  const uint64_t first = TokensOf(&times, 1, kMost);
  EXPECT_EQ(first, 19u);
  times.Learn(1, first, 0.02 + 0.09);  // Five times what was thought.
  EXPECT_GE(PassesSaved(&times, 1, 0.02), 4u);
}

TEST(PassTimesTest, ALongHaltOwesNoMoreThanAFewPassesAndHardlyChangesWhatATokenTakes) {
  PassTimes times = Known(1, 0.02, 0.001);
  times.Learn(1, 19, 60);
  EXPECT_NEAR(times.prompt_token_seconds(), 0.0016, 1e-9) << "a fifth of the way to four times";
  EXPECT_LE(PassesSaved(&times, 1, 0.02), 19u);
}

TEST(PassTimesTest, WithAFactorOfOnePromptsKeepATenth) {
  PassTimes times(1);
  times.Learn(0, 100, 0.1);
  times.Learn(1, 0, 0.02);
  double passes_seconds = 0;
  uint64_t num_tokens = 0;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t num = TokensOf(&times, 1, kMost);
    const double seconds = 0.02 + 0.001 * static_cast<double>(num);
    times.Learn(1, num, seconds);
    passes_seconds += seconds;
    num_tokens += num;
  }
  EXPECT_NEAR(passes_seconds / 1000, 0.022, 0.0002);
  EXPECT_NEAR(static_cast<double>(num_tokens), 2000, 30);
}

TEST(PassTimesTest, APassThatWasFasterThanRepliesAloneTeachesNothing) {
  PassTimes times = Known(1, 0.02, 0.005);
  times.Learn(1, 4, 0.01);
  EXPECT_NEAR(times.prompt_token_seconds(), 0.005, 1e-12);
}

// Passes with prompts until one without is due; each is as long as the model says.
uint64_t PassesUntilMeasured(PassTimes* times) {
  uint64_t num_passes = 0;
  for (;; ++num_passes) {
    const uint64_t num = TokensOf(times, 1, kMost);
    if (num == 0) return num_passes;
    times->Learn(1, num, 0.02 + 0.001 * static_cast<double>(num));
  }
}

TEST(PassTimesTest, TheMoreWereMeasuredTheMoreSeldomOneGoesWithoutPrompts) {
  PassTimes times(2);
  times.Learn(0, 100, 0.1);
  for (const uint64_t passes : {3U, 6U, 9U, 12U, 15U, 18U, 21U, 24U, 27U, 27U, 27U}) {
    times.Learn(1, 0, 0.02);
    EXPECT_EQ(PassesUntilMeasured(&times), passes);
    EXPECT_EQ(TokensOf(&times, 0, kMost), kMost) << "no reply is slowed";
  }
}

TEST(PassTimesTest, PassesThatSomethingElseSlowedChangeNothing) {
  PassTimes times = Known(3, 0.026, 0.001);
  for (int i = 0; i < 4; ++i) times.Learn(3, 0, 0.5);  // A long prompt arrives.
  EXPECT_EQ(TokensOf(&times, 3, kMost), 24u);
}

TEST(PassTimesTest, RoomIsOfWhatRepliesTookWhenThePromptCame) {
  PassTimes times = Known(3, 0.026, 0.0005);
  EXPECT_EQ(TokensOf(&times, 3, kMost), 49u);
  times.Room(3, 0);  // None waits any more.
  EXPECT_EQ(TokensOf(&times, 3, kMost), 49u);
  for (int i = 0; i < 100; ++i) {  // They deepen, and what they leave is used.
    times.Learn(3, 0, 0.034);
    const uint64_t num = TokensOf(&times, 3, kMost);
    times.Learn(3, num, 0.034 + 0.0005 * static_cast<double>(num));
  }
  EXPECT_NEAR(static_cast<double>(TokensOf(&times, 3, kMost)), (1.95 * 26 - 34) / 0.5, 2);
  times.Room(3, 0);  // None waits any more.
  EXPECT_EQ(TokensOf(&times, 3, kMost), 64u) << "the next one finds them at 34 ms";
}

TEST(PassTimesTest, OtherRepliesAreMeasuredAgainstThemselves) {
  PassTimes times = Known(1, 0.02, 0.001);
  EXPECT_EQ(TokensOf(&times, 1, kMost), 19u);
  times.Learn(2, 0, 0.04);
  EXPECT_EQ(TokensOf(&times, 2, kMost), 38u);
}

TEST(PassTimesTest, RepliesThatHaveDeepenedFarLeaveAPromptItsShare) {
  PassTimes times = Known(3, 0.02, 0.001);
  uint64_t num_tokens = 0;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t num = TokensOf(&times, 3, kMost);
    times.Learn(3, num, 0.062 + 0.001 * static_cast<double>(num));
    if (i >= 500) num_tokens += num;
  }
  EXPECT_NEAR(static_cast<double>(num_tokens) / 500, 12.4, 1) << "a fifth of 62 ms a pass";
}

TEST(PassTimesTest, RepliesThatComeWhenAllHaveGoneAreOthers) {
  PassTimes times = Known(1, 0.02, 0.001);
  EXPECT_EQ(TokensOf(&times, 1, kMost), 19u);
  times.Learn(0, 512, 0.5);  // The reply has ended, and the prompt goes on alone.
  EXPECT_EQ(TokensOf(&times, 1, kMost), 0u) << "a reply has come, of unknown time";
  times.Learn(1, 0, 0.04);
  EXPECT_EQ(TokensOf(&times, 1, kMost), 38u);
}

TEST(PassTimesTest, WhatWasSavedStaysWhenRepliesComeAndGo) {
  PassTimes times = Known(4, 0.02, 0.01);  // Room for 1.9 tokens a pass: 9 save for a chunk.
  uint64_t num_tokens = 0;
  double sum = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    const uint64_t num_replies = 4 + (i / 4) % 2;
    const uint64_t num = TokensOf(&times, num_replies, kMost);
    const double seconds = 0.02 + 0.01 * static_cast<double>(num);
    times.Learn(num_replies, num, seconds);
    num_tokens += num;
    sum += seconds;
  }
  EXPECT_GT(num_tokens, 1300u) << "of 1,900: the first pass of each four is measured alone";
  EXPECT_LT(sum / 1000, 2 * 0.02);
}

TEST(PassTimesTest, NoChunkTakesLongerThanAReplyWishes) {
  PassTimes times = Known(1, 0.02, 0.005);
  const PromptRoom room = times.Room(1, kMost, 0.04);
  EXPECT_EQ(room.tokens, 3u);
  EXPECT_EQ(room.chunk, 4u) << "of 20 ms";
  times.Learn(1, 0, 0.02);
  EXPECT_EQ(times.Room(1, kMost, 0.04).tokens, 4u);
  EXPECT_EQ(times.Room(1, kMost, 0.04).chunk, 4u);
  EXPECT_EQ(times.Room(1, kMost, 0.021).tokens, 1u) << "one at least";
  EXPECT_EQ(times.Room(1, kMost, 0.01).chunk, 16u) << "what can't be helped is not waited for";
}

// A prompt of 8,192 tokens beside three replies that deepen, too: a token of it costs the more the
// deeper it is, and so does each pass that takes any.
TEST(PassTimesTest, ThePassesOfADeepPromptKeepWithinTheFactorOnTheMean) {
  constexpr double kReplies = 0.022;
  PassTimes times = Known(3, kReplies, 0.002);
  double sum = 0;
  double longest = 0;
  uint64_t num_passes = 0;
  for (uint64_t done = 0; done < 8192; ++num_passes) {
    ASSERT_LT(num_passes, 10000u);
    const double depth = static_cast<double>(done) / 8192;
    const uint64_t num = TokensOf(&times, 3, std::min(kMost, 8192 - done));
    const double reading = num == 0 ? 0 : 0.012 * depth;
    const double seconds = kReplies + 1.5e-6 * static_cast<double>(num_passes) + reading +
                           static_cast<double>(num) * (0.002 + 0.004 * depth);
    times.Learn(3, num, seconds);
    done += num;
    sum += seconds;
    longest = std::max(longest, seconds);
  }
  EXPECT_LT(sum / static_cast<double>(num_passes), 2 * kReplies);
  EXPECT_GT(sum / static_cast<double>(num_passes), 1.85 * kReplies) << "its share is used";
  EXPECT_LT(longest, kReplies + 16 * 0.006 + 0.012 + 0.02) << "a chunk, where it is deepest";
}

}  // namespace
}  // namespace attndb::server
