// Goal:   a pass with tokens of prompts takes at most so many times as long as one without, however
//         deep the prompts are; alone they take all.
// Method: passes whose time is given: a fixed one for the replies, and one for each token of a
//         prompt that grows with the tokens before it.
#include "server/batch/pass_times.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace attndb::server {
namespace {

constexpr uint64_t kMost = 512;

TEST(PassTimesTest, PromptsAloneTakeAll) {
  PassTimes times;
  EXPECT_EQ(times.PromptBudget(0, kMost, 2), kMost);
  times.Learn(3, 0, 0.02);
  times.Learn(0, 512, 5);
  EXPECT_EQ(times.PromptBudget(0, kMost, 2), kMost);
  EXPECT_NEAR(times.prompt_token_seconds(), 5.0 / 512, 1e-12);
}

TEST(PassTimesTest, BesideRepliesOfUnknownTimeNoneIsRun) {
  PassTimes times;
  times.Learn(0, 512, 5);
  EXPECT_EQ(times.PromptBudget(1, kMost, 2), 0u);
  times.Learn(1, 0, 0.02);
  EXPECT_GT(times.PromptBudget(1, kMost, 2), 0u);
  EXPECT_EQ(times.PromptBudget(2, kMost, 2), 0u) << "two take longer than one";
  times.Learn(2, 0, 0.03);
  EXPECT_GT(times.PromptBudget(2, kMost, 2), 0u);
  EXPECT_EQ(times.PromptBudget(1, kMost, 2), 0u) << "what one took is long ago";
}

TEST(PassTimesTest, UntilATokenIsMeasuredPromptsTakeAnEighth) {
  PassTimes times;
  times.Learn(1, 0, 0.02);
  EXPECT_EQ(times.PromptBudget(1, kMost, 2), kMost / 8);
  EXPECT_EQ(times.PromptBudget(1, 3, 2), 1u);
}

TEST(PassTimesTest, SoManyFitAsTheFactorAllows) {
  PassTimes times;
  times.Learn(3, 0, 0.026);
  times.Learn(0, 100, 0.5);
  EXPECT_EQ(times.PromptBudget(3, kMost, 2), 4u) << "four fifths of 26 ms";
  EXPECT_EQ(times.PromptBudget(3, kMost, 1.5), 2u);
  EXPECT_EQ(times.PromptBudget(3, 3, 2), 3u) << "not more than a pass has room for";
}

TEST(PassTimesTest, AtLeastOneIsRun) {
  PassTimes times;
  times.Learn(1, 0, 0.001);
  times.Learn(0, 100, 5);
  EXPECT_EQ(times.PromptBudget(1, kMost, 2), 1u);
}

TEST(PassTimesTest, APassThatWasFasterThanRepliesAloneTeachesNothing) {
  PassTimes times;
  times.Learn(1, 0, 0.02);
  times.Learn(0, 100, 0.5);
  times.Learn(1, 4, 0.01);
  EXPECT_NEAR(times.prompt_token_seconds(), 0.005, 1e-12);
}

// Passes with prompts until one without is due; each is as long as the model says.
uint64_t PassesUntilMeasured(PassTimes* times) {
  uint64_t num_passes = 0;
  for (;; ++num_passes) {
    const uint64_t num = times->PromptBudget(1, kMost, 2);
    if (num == 0) return num_passes;
    times->Learn(1, num, 0.02 + 0.005 * static_cast<double>(num));
  }
}

TEST(PassTimesTest, TheMoreWereMeasuredTheMoreSeldomOneGoesWithoutPrompts) {
  PassTimes times;
  times.Learn(0, 100, 0.5);
  for (const uint64_t passes : {3U, 6U, 9U, 12U, 15U, 18U, 21U, 24U, 27U, 27U, 27U}) {
    times.Learn(1, 0, 0.02);
    EXPECT_EQ(PassesUntilMeasured(&times), passes);
    EXPECT_EQ(times.PromptBudget(0, kMost, 2), kMost) << "no reply is slowed";
  }
}

TEST(PassTimesTest, PassesThatSomethingElseSlowedChangeNothing) {
  PassTimes times;
  times.Learn(0, 100, 0.5);
  for (int i = 0; i < 5; ++i) times.Learn(3, 0, 0.026);
  for (int i = 0; i < 4; ++i) times.Learn(3, 0, 0.5);  // A long prompt arrives.
  EXPECT_EQ(times.PromptBudget(3, kMost, 2), 4u);
}

TEST(PassTimesTest, APassIsMeasuredAgainstWhatRepliesTookWhenThePromptCame) {
  PassTimes times;
  times.Learn(0, 100, 0.5);
  for (int i = 0; i < 9; ++i) times.Learn(3, 0, 0.026);
  EXPECT_EQ(times.PromptBudget(3, kMost, 2), 4u);
  for (int i = 0; i < 9; ++i) times.Learn(3, 0, 0.034);
  EXPECT_EQ(times.PromptBudget(3, kMost, 2), 2u) << "1.8 times 26 ms, without 34";
  times.EndPrompts();
  EXPECT_EQ(times.PromptBudget(3, kMost, 2), 5u) << "the next one finds them at 34 ms";
}

TEST(PassTimesTest, OtherRepliesAreMeasuredAgainstThemselves) {
  PassTimes times;
  times.Learn(0, 100, 0.5);
  times.Learn(1, 0, 0.02);
  EXPECT_EQ(times.PromptBudget(1, kMost, 2), 3u);
  times.Learn(2, 0, 0.04);
  EXPECT_EQ(times.PromptBudget(2, kMost, 2), 6u);
}

TEST(PassTimesTest, RepliesThatDeepenAreMeasuredAgainAndLeaveAPromptItsShare) {
  PassTimes times;
  times.Learn(0, 100, 0.5);
  for (int i = 0; i < 9; ++i) times.Learn(3, 0, 0.02);
  for (int i = 0; i < 500; ++i) {
    const uint64_t num = times.PromptBudget(3, kMost, 2);
    times.Learn(3, num, 0.062 + 0.005 * static_cast<double>(num));
  }
  EXPECT_EQ(times.PromptBudget(3, kMost, 2), 3u) << "a quarter of 62 ms";
}

// A prompt of 8,192 tokens, the last of which costs five times the first, beside three replies.
TEST(PassTimesTest, ThePassesOfADeepPromptKeepWithinTheFactor) {
  constexpr double kReplies = 0.022;
  const auto token_seconds = [](uint64_t depth) {
    return 0.002 + 0.008 * static_cast<double>(depth) / 8192;
  };
  PassTimes times;
  times.Learn(0, 64, 64 * token_seconds(0));  // Their own prompts.
  double sum = 0;
  double longest = 0;
  uint64_t num_passes = 0;
  for (uint64_t done = 0; done < 8192;) {
    const uint64_t num = std::min<uint64_t>(times.PromptBudget(3, kMost, 2), 8192 - done);
    const double seconds = kReplies + static_cast<double>(num) * token_seconds(done);
    times.Learn(3, num, seconds);
    done += num;
    sum += seconds;
    longest = std::max(longest, seconds);
    ++num_passes;
  }
  EXPECT_LT(sum / static_cast<double>(num_passes), 2.0 * kReplies);
  EXPECT_LT(longest, 2.1 * kReplies);
}

}  // namespace
}  // namespace attndb::server
