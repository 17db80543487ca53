// Goal:   a prediction is within 1.5 times of what a prefill takes, whatever its length, and from
//         whichever length the cost was learned.
//         A list of texts is measured again for a text that is much longer than those before.
// Method: times of a made-up machine, with noise and a slow first pass; predictions compared with
//         what that machine takes. For a list, a tiny model and tokens that it does not have: a
//         measure of these fails, so that an answer means that there was none.
#include "cli/common/prefill_cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "cli/common/temp_dir.h"
#include "testing/matchers.h"

namespace attndb::cli {
namespace {

using ::attndb::test::FailsWith;
using ::testing::HasSubstr;

constexpr uint64_t kPass = 512;

// Seconds of a machine whose token takes 1 ms, and as much again behind `twice_at` tokens.
double TrueSeconds(uint64_t begin, uint64_t end, double twice_at) {
  double seconds = 0;
  for (uint64_t token = begin; token < end; ++token) {
    seconds += 1e-3 * (1 + static_cast<double>(token) / twice_at);
  }
  return seconds;
}

PrefillTimes TimesOf(uint64_t num_tokens, double twice_at, double noise = 0) {
  PrefillTimes times;
  double now = 100;
  times.Add(0, now);
  for (uint64_t done = 0; done < num_tokens; done += kPass) {
    const double wobble = 1 + ((done / kPass) % 2 == 0 ? noise : -noise);
    now += TrueSeconds(done, done + kPass, twice_at) * wobble + (done == 0 ? 3 : 0);
    times.Add(done + kPass, now);
  }
  return times;
}

TEST(PrefillCostTest, TheCostOfATokenAndItsGrowthAreFound) {
  const auto cost = TimesOf(8192, 4000).Fit();
  ASSERT_TRUE(cost.has_value());
  EXPECT_NEAR(cost->token_seconds, 1e-3, 1e-6) << "the slow first pass does not count";
  EXPECT_NEAR(cost->growth, 1.0 / 4000, 1e-6);
}

TEST(PrefillCostTest, ALongTextIsPredictedFromAShortOneAndTheOtherWay) {
  for (const double twice_at : {1500.0, 4000.0, 50'000.0}) {
    const auto learned = TimesOf(6144, twice_at, 0.1).Fit();
    ASSERT_TRUE(learned.has_value());
    for (const uint64_t end : {100U, 1000U, 8000U, 30'000U}) {
      const double took = TrueSeconds(0, end, twice_at);
      const double said = learned->Seconds(0, end);
      EXPECT_LT(said, 1.5 * took) << end << " tokens, " << twice_at;
      EXPECT_GT(said, took / 1.5) << end << " tokens, " << twice_at;
    }
    EXPECT_NEAR(learned->Seconds(4000, 8000), TrueSeconds(4000, 8000, twice_at),
                TrueSeconds(4000, 8000, twice_at) * 0.2)
        << "what is stored already costs nothing, and stands before the rest";
  }
}

TEST(PrefillCostTest, FewPassesShowNothing) {
  EXPECT_FALSE(PrefillTimes().Fit().has_value());
  EXPECT_FALSE(TimesOf(512, 4000).Fit().has_value());
  EXPECT_FALSE(TimesOf(2048, 4000).Fit().has_value());
  EXPECT_TRUE(TimesOf(4096, 4000).Fit().has_value());
}

TEST(PrefillCostTest, AMachineThatGetsFasterHasNoGrowthBelowZero) {
  const auto cost = TimesOf(4096, -10'000).Fit();
  ASSERT_TRUE(cost.has_value());
  EXPECT_EQ(cost->growth, 0);
}

TEST(PrefillCostTest, TheShapeOfAModelSaysHowAttentionGrows) {
  ModelSpec spec;
  LayerSpec layer;
  layer.num_q_heads = 9;
  layer.head_dim = layer.v_head_dim = 64;
  spec.layers.assign(30, layer);
  EXPECT_NEAR(GrowthOfShape(spec, 134'515'008), 2.57e-4, 1e-6);
  EXPECT_EQ(GrowthOfShape(spec, 0), 0);
}

TEST(PrefillMeterTest, OnlyAMuchLongerTextOfAListIsMeasuredAgain) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const TempDir cache, TempDir::Create(""));
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      llama::LlamaEngine engine,
      llama::LlamaEngine::Open(ATTNDB_TINY_MODELS "/llama.gguf",
                               {.num_threads = 1, .ubatch_tokens = 64, .cache_dir = cache.path()}));
  PrefillMeter meter;
  const auto cost_for = [&](size_t num_tokens, TokenId token) {
    return meter.CostFor(&engine, std::vector<TokenId>(num_tokens, token));
  };
  constexpr TokenId kUnknown = 1 << 30;
  const auto is_measured = FailsWith(StatusCode::kInvalidArgument, HasSubstr("vocabulary"));
  EXPECT_THAT(cost_for(10, kUnknown), is_measured);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PrefillCost first, cost_for(10, 1));
  EXPECT_GT(first.token_seconds, 0);
  for (const size_t num_tokens : {1U, 10U, 20U}) {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const PrefillCost again, cost_for(num_tokens, kUnknown));
    EXPECT_EQ(again.token_seconds, first.token_seconds);
  }
  EXPECT_THAT(cost_for(21, kUnknown), is_measured);
  ATTNDB_EXPECT_OK(cost_for(32, 1));
  // A measure takes no more than one pass.
  ATTNDB_EXPECT_OK(cost_for(1000, kUnknown));
}

TEST(PrefillCostTest, NothingTakesNoTime) {
  const PrefillCost cost = {.token_seconds = 1, .growth = 0.1};
  EXPECT_EQ(cost.Seconds(7, 7), 0);
  EXPECT_EQ(cost.Seconds(8, 7), 0);
  EXPECT_DOUBLE_EQ(cost.Seconds(0, 10), 10 + 0.1 * 50);
}

}  // namespace
}  // namespace attndb::cli
