#include "engines/llama/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "testing/matchers.h"

namespace attndb::llama {
namespace {

using ::attndb::test::FailsWith;
using ::testing::HasSubstr;

const std::vector<float> kLogits = {1.0f, 5.0f, 4.9f, -2.0f, 5.0f};

std::vector<TokenId> Draw(const SamplerOptions& options, int count) {
  TokenSampler sampler = *TokenSampler::Make(options, static_cast<uint32_t>(kLogits.size()));
  std::vector<TokenId> drawn;
  for (int i = 0; i < count; ++i) drawn.push_back(sampler.Sample(kLogits));
  return drawn;
}

TEST(SamplerTest, GreedyTakesTheFirstOfTheLargest) {
  EXPECT_EQ(ArgMax(kLogits), 1);
  EXPECT_EQ(Draw({}, 1)[0], 1);
  EXPECT_EQ(ArgMax(std::vector<float>{-3.0f}), 0);
}

TEST(SamplerTest, TheRunnerUpIsTheFirstOfTheLargestOthers) {
  EXPECT_EQ(RunnerUp(kLogits, 1), 4);
  EXPECT_EQ(RunnerUp(kLogits, 4), 1);
  EXPECT_EQ(RunnerUp(std::vector<float>{2.0f, 1.0f, 1.0f}, 0), 1);
  EXPECT_EQ(RunnerUp(std::vector<float>{1.0f, 2.0f}, 1), 0);
}

TEST(SamplerTest, DrawsAreFixedByTheSeedAndReachBeyondTheLargest) {
  const SamplerOptions options = {
      .temperature = 1.0f, .top_k = 0, .top_p = 1.0f, .min_p = 0.0f, .seed = 5};
  const std::vector<TokenId> drawn = Draw(options, 200);
  EXPECT_EQ(drawn, Draw(options, 200));
  SamplerOptions other = options;
  other.seed = 6;
  EXPECT_NE(drawn, Draw(other, 200));
  EXPECT_GE(std::set<TokenId>(drawn.begin(), drawn.end()).size(), 3u);
}

TEST(SamplerTest, TopKLimitsTheChoice) {
  const SamplerOptions options = {.temperature = 2.0f, .top_k = 3, .top_p = 1.0f, .min_p = 0.0f};
  for (const TokenId token : Draw(options, 200)) EXPECT_THAT(token, ::testing::AnyOf(1, 2, 4));
}

TEST(SamplerTest, ThePenaltyMovesAGreedyChoiceOn) {
  TokenSampler sampler = *TokenSampler::Make({.repeat_penalty = 1.5f}, 5);
  EXPECT_EQ(sampler.Sample(kLogits), 1);
  sampler.Accept(1);
  EXPECT_EQ(sampler.Sample(kLogits), 4);
  sampler.Accept(4);
  EXPECT_EQ(sampler.Sample(kLogits), 2);
}

TEST(SamplerTest, OptionsOutOfLimitsAreNamed) {
  const std::pair<SamplerOptions, const char*> cases[] = {
      {{.temperature = -1.0f}, "temperature"},
      {{.top_k = -1}, "top_k"},
      {{.top_p = 1.5f}, "top_p"},
      {{.min_p = -0.1f}, "min_p"},
      {{.repeat_penalty = 0.0f}, "repeat_penalty"},
      {{.repeat_last_n = -1}, "repeat_last_n"}};
  for (const auto& [options, name] : cases) {
    EXPECT_THAT(TokenSampler::Make(options, 5),
                FailsWith(StatusCode::kInvalidArgument, HasSubstr(name)));
  }
}

}  // namespace
}  // namespace attndb::llama
