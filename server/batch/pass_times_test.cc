// Goal:   passes with tokens of prompts take on the mean at most so many times as long as those
//         without took, however deep the prompts are, however replies deepen, and whatever was
//         misjudged; prompts come to an end; alone they take all.
// Method: passes whose time is given: a fixed one for the replies, and one for each token of a
//         prompt that grows with the tokens before it.
#include "server/batch/pass_times.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace attndb::server {
namespace {

constexpr uint64_t kMost = 512;

// Times with a factor of 2 that know replies of so many seconds a pass, and a prompt's token.
PassTimes Known(uint64_t num_replies, double reply_seconds, double token_seconds) {
  PassTimes times(2);
  times.Learn(0, 100, 100 * token_seconds);
  for (int i = 0; i < 9; ++i) times.Learn(num_replies, 0, reply_seconds);
  return times;
}

TEST(PassTimesTest, PromptsAloneTakeAll) {
  PassTimes times(2);
  EXPECT_EQ(times.PromptBudget(0, kMost), kMost);
  times.Learn(3, 0, 0.02);
  times.Learn(0, 512, 5);
  EXPECT_EQ(times.PromptBudget(0, kMost), kMost);
  EXPECT_NEAR(times.prompt_token_seconds(), 5.0 / 512, 1e-12);
}

TEST(PassTimesTest, BesideRepliesOfUnknownTimeNoneIsRun) {
  PassTimes times(2);
  times.Learn(0, 512, 0.5);
  EXPECT_EQ(times.PromptBudget(1, kMost), 0u);
  times.Learn(1, 0, 0.02);
  EXPECT_GT(times.PromptBudget(1, kMost), 0u);
  EXPECT_EQ(times.PromptBudget(2, kMost), 0u) << "two take longer than one";
  times.Learn(2, 0, 0.03);
  EXPECT_GT(times.PromptBudget(2, kMost), 0u);
  EXPECT_EQ(times.PromptBudget(1, kMost), 0u) << "what one took is long ago";
}

TEST(PassTimesTest, UntilATokenIsMeasuredPromptsTakeAnEighth) {
  PassTimes times(2);
  times.Learn(1, 0, 0.02);
  EXPECT_EQ(times.PromptBudget(1, kMost), kMost / 8);
  EXPECT_EQ(times.PromptBudget(1, 3), 1u);
}

TEST(PassTimesTest, WhereAPassHasRoomForAChunkItTakesAsManyAsItHasRoomFor) {
  PassTimes times = Known(3, 0.026, 0.001);
  EXPECT_EQ(times.PromptBudget(3, kMost), 24u) << "19 of 20 parts of 26 ms";
  EXPECT_EQ(times.PromptBudget(3, 20), 20u) << "not more than there are";
}

TEST(PassTimesTest, AChunkIsSavedFor) {
  PassTimes times = Known(3, 0.026, 0.005);  // Room for 4.9 tokens a pass.
  for (const uint64_t num : {0U, 0U, 0U, 19U}) {
    EXPECT_EQ(times.PromptBudget(3, kMost), num);
    times.Learn(3, num, 0.026 + 0.005 * static_cast<double>(num));
  }
  EXPECT_EQ(times.PromptBudget(3, kMost), 0u) << "it is spent";
}

TEST(PassTimesTest, TheLastTokensOfAPromptDoNotWaitForAChunk) {
  PassTimes times = Known(3, 0.026, 0.005);
  EXPECT_EQ(times.PromptBudget(3, 4), 4u);
  EXPECT_EQ(times.PromptBudget(3, 9), 0u);
  times.Learn(3, 0, 0.026);
  EXPECT_EQ(times.PromptBudget(3, 9), 9u);
}

TEST(PassTimesTest, AChunkIsNoMoreThanAFewPassesSave) {
  PassTimes times = Known(1, 0.01, 0.01);  // Room for .95 of a token a pass.
  uint64_t num_passes = 0;
  while (times.PromptBudget(1, kMost) == 0) {
    times.Learn(1, 0, 0.01);
    ++num_passes;
  }
  EXPECT_EQ(num_passes, 15u);
  EXPECT_EQ(times.PromptBudget(1, kMost), 15u) << "16 times .95";
}

TEST(PassTimesTest, ATokenThatTakesMoreThanAFewPassesSaveIsRunWhenItWasSavedFor) {
  PassTimes times = Known(1, 0.001, 0.05);
  uint64_t num_passes = 0;
  while (times.PromptBudget(1, kMost) == 0) {
    times.Learn(1, 0, 0.001);
    ++num_passes;
  }
  EXPECT_NEAR(static_cast<double>(num_passes), 0.05 / 0.00095, 1.5);
  EXPECT_EQ(times.PromptBudget(1, kMost), 1u);
}

TEST(PassTimesTest, WhatWasMisjudgedIsPaidBack) {
  PassTimes times = Known(1, 0.02, 0.001);
  const uint64_t first = times.PromptBudget(1, kMost);
  EXPECT_EQ(first, 19u);
  times.Learn(1, first, 0.02 + 0.09);  // Five times what was thought.
  uint64_t num_passes = 0;
  while (times.PromptBudget(1, kMost) == 0) {
    times.Learn(1, 0, 0.02);
    ++num_passes;
  }
  EXPECT_GE(num_passes, 4u);
}

TEST(PassTimesTest, ALongHaltOwesNoMoreThanAFewPasses) {
  PassTimes times = Known(1, 0.02, 0.001);
  const uint64_t first = times.PromptBudget(1, kMost);
  times.Learn(1, first, 60);
  times.Learn(0, 100, 0.1);  // A token takes as long as it did.
  for (int i = 0; i < 50; ++i) times.Learn(0, 100, 0.1);
  uint64_t num_passes = 0;
  while (times.PromptBudget(1, kMost) == 0 && num_passes < 100) {
    times.Learn(1, 0, 0.02);
    ++num_passes;
  }
  EXPECT_LE(num_passes, 17u);
}

TEST(PassTimesTest, WithAFactorOfOnePromptsKeepATenth) {
  PassTimes times(1);
  times.Learn(0, 100, 0.1);
  times.Learn(1, 0, 0.02);
  double passes_seconds = 0;
  uint64_t num_tokens = 0;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t num = times.PromptBudget(1, kMost);
    const double seconds = 0.02 + 0.001 * static_cast<double>(num);
    times.Learn(1, num, seconds);
    passes_seconds += seconds;
    num_tokens += num;
  }
  EXPECT_NEAR(passes_seconds / 1000, 0.022, 0.0002);
  EXPECT_NEAR(static_cast<double>(num_tokens), 2000, 30);
}

TEST(PassTimesTest, APassThatWasFasterThanRepliesAloneTeachesNothing) {
  PassTimes times(2);
  times.Learn(1, 0, 0.02);
  times.Learn(0, 100, 0.5);
  times.Learn(1, 4, 0.01);
  EXPECT_NEAR(times.prompt_token_seconds(), 0.005, 1e-12);
}

// Passes with prompts until one without is due; each is as long as the model says.
uint64_t PassesUntilMeasured(PassTimes* times) {
  uint64_t num_passes = 0;
  for (;; ++num_passes) {
    const uint64_t num = times->PromptBudget(1, kMost);
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
    EXPECT_EQ(times.PromptBudget(0, kMost), kMost) << "no reply is slowed";
  }
}

TEST(PassTimesTest, PassesThatSomethingElseSlowedChangeNothing) {
  PassTimes times = Known(3, 0.026, 0.001);
  for (int i = 0; i < 4; ++i) times.Learn(3, 0, 0.5);  // A long prompt arrives.
  EXPECT_EQ(times.PromptBudget(3, kMost), 24u);
}

TEST(PassTimesTest, RoomIsOfWhatRepliesTookWhenThePromptCame) {
  PassTimes times = Known(3, 0.026, 0.0005);
  EXPECT_EQ(times.PromptBudget(3, kMost), 49u);
  times.EndPrompts();
  EXPECT_EQ(times.PromptBudget(3, kMost), 49u);
  for (int i = 0; i < 100; ++i) {  // They deepen, and what they leave is used.
    times.Learn(3, 0, 0.034);
    const uint64_t num = times.PromptBudget(3, kMost);
    times.Learn(3, num, 0.034 + 0.0005 * static_cast<double>(num));
  }
  EXPECT_NEAR(static_cast<double>(times.PromptBudget(3, kMost)), (1.95 * 26 - 34) / 0.5, 2);
  times.EndPrompts();
  EXPECT_EQ(times.PromptBudget(3, kMost), 64u) << "the next one finds them at 34 ms";
}

TEST(PassTimesTest, OtherRepliesAreMeasuredAgainstThemselves) {
  PassTimes times = Known(1, 0.02, 0.001);
  EXPECT_EQ(times.PromptBudget(1, kMost), 19u);
  times.Learn(2, 0, 0.04);
  EXPECT_EQ(times.PromptBudget(2, kMost), 38u);
}

TEST(PassTimesTest, RepliesThatHaveDeepenedFarLeaveAPromptItsShare) {
  PassTimes times = Known(3, 0.02, 0.001);
  uint64_t num_tokens = 0;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t num = times.PromptBudget(3, kMost);
    times.Learn(3, num, 0.062 + 0.001 * static_cast<double>(num));
    if (i >= 500) num_tokens += num;
  }
  EXPECT_NEAR(static_cast<double>(num_tokens) / 500, 12.4, 1) << "a fifth of 62 ms a pass";
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
    const double depth = static_cast<double>(done) / 8192;
    const uint64_t num = times.PromptBudget(3, std::min(kMost, 8192 - done));
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
  EXPECT_LT(longest, 9 * kReplies);
}

}  // namespace
}  // namespace attndb::server
