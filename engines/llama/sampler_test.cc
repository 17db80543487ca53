#include "engines/llama/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "testing/matchers.h"

namespace attndb::llama {
namespace {

using ::attndb::test::FailsWith;
using ::testing::HasSubstr;

const std::vector<float> kLogits = {1.0f, 5.0f, 4.9f, -2.0f, 5.0f};
constexpr float kNever = -std::numeric_limits<float>::infinity();

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

TEST(SamplerTest, ABiasIsAddedToTheLogitOfItsToken) {
  EXPECT_EQ(Draw({.logit_bias = {{3, 7.5f}}}, 1)[0], 3);
  EXPECT_EQ(Draw({.logit_bias = {{3, 6.5f}}}, 1)[0], 1) << "4.5 is not the largest";
  EXPECT_EQ(Draw({.logit_bias = {{1, -0.5f}}}, 1)[0], 4);
  EXPECT_EQ(Draw({.logit_bias = {{1, kNever}, {4, kNever}}}, 1)[0], 2);
  EXPECT_EQ(Draw({.logit_bias = {{0, 0.0f}}}, 1)[0], 1);
  EXPECT_EQ(Draw({.logit_bias = {{3, 4.0f}, {3, 3.5f}}}, 1)[0], 3) << "both are added";
}

TEST(SamplerTest, OfEquallyBiasedTokensTheFirstIsChosen) {
  EXPECT_EQ(Draw({.logit_bias = {{3, 7.0f}}}, 1)[0], 1);
  EXPECT_EQ(Draw({.logit_bias = {{0, 4.0f}}}, 1)[0], 0);
}

TEST(SamplerTest, ATokenThatIsForbiddenIsNeverDrawn) {
  const SamplerOptions options = {.temperature = 5.0f,
                                  .top_k = 0,
                                  .top_p = 1.0f,
                                  .min_p = 0.0f,
                                  .logit_bias = {{1, kNever}, {4, kNever}}};
  const std::vector<TokenId> drawn = Draw(options, 500);
  EXPECT_EQ(std::set<TokenId>(drawn.begin(), drawn.end()), (std::set<TokenId>{0, 2, 3}));
  SamplerOptions one = options;
  one.logit_bias.insert(one.logit_bias.end(), {{0, kNever}, {2, kNever}});
  for (const TokenId token : Draw(one, 50)) EXPECT_EQ(token, 3);
}

// The order shows where the order matters: a penalty divides a logit that the bias made positive,
// and multiplies one that it made negative.
TEST(SamplerTest, TheBiasComesBeforeThePenalty) {
  const auto second = [](float bias) {
    TokenSampler sampler = *TokenSampler::Make(
        {.repeat_penalty = 2.0f, .logit_bias = {{0, bias}, {1, -100}, {2, -100}, {4, -100}}}, 5);
    sampler.Accept(0);
    return sampler.Sample(kLogits);
  };
  // Token 3 has -2. Behind a bias of -2.5 token 0 has -1.5, which the penalty makes -3; the other
  // way round it would be 1 / 2 - 2.5 = -2, and the first of equals.
  EXPECT_EQ(second(-2.5f), 3);
  EXPECT_EQ(second(-1.5f), 0) << "-0.5 becomes -1";
}

TEST(SamplerTest, TheBiasComesBeforeTheCutOfTheLikeliest) {
  const SamplerOptions options = {
      .temperature = 1.0f, .top_k = 1, .top_p = 1.0f, .min_p = 0.0f, .logit_bias = {{3, 10.0f}}};
  for (const TokenId token : Draw(options, 20)) EXPECT_EQ(token, 3);
}

TEST(SamplerTest, ABiasThatCantBeHonouredIsNamed) {
  const auto refused = [](std::vector<TokenBias> biases) {
    const auto sampler = TokenSampler::Make({.logit_bias = std::move(biases)}, 3);
    EXPECT_THAT(sampler, FailsWith(StatusCode::kInvalidArgument, HasSubstr("logit_bias")));
    return sampler.ok() ? std::string() : sampler.status().message();
  };
  EXPECT_THAT(refused({{3, 1.0f}}), HasSubstr("token 3, the vocabulary has ids 0 to 2"));
  EXPECT_THAT(refused({{-1, 1.0f}}), HasSubstr("token -1"));
  EXPECT_THAT(refused({{0, std::nanf("")}}), HasSubstr("token 0 is nan"));
  EXPECT_THAT(refused({{2, -kNever}}), HasSubstr("token 2 is inf"));
  EXPECT_THAT(refused({{0, kNever}, {1, kNever}, {2, kNever}}), HasSubstr("forbids every token"));
  EXPECT_THAT(TokenSampler::Make({.logit_bias = {{0, kNever}, {1, kNever}, {1, kNever}}}, 3),
              ::attndb::test::IsOk());
}

TEST(SamplerTest, WithoutADrawTheChoiceIsSure) {
  for (const SamplerOptions& options : {SamplerOptions(), SamplerOptions{.repeat_penalty = 1.1f},
                                        SamplerOptions{.logit_bias = {{2, 1.0f}}}}) {
    TokenSampler sampler = *TokenSampler::Make(options, 5);
    const TokenId token = sampler.Sample(kLogits);
    const TokenChances chances = sampler.Chances(token, 3);
    EXPECT_EQ(chances.chosen, 1);
    ASSERT_EQ(chances.likeliest.size(), 1u);
    EXPECT_EQ(chances.likeliest[0].token, token);
    EXPECT_EQ(chances.likeliest[0].value, 1);
    EXPECT_TRUE(sampler.Chances(token, 0).likeliest.empty());
  }
}

TEST(SamplerTest, ChancesOfADrawAreThoseAfterAllSamplers) {
  const SamplerOptions options = {.temperature = 0.5f,
                                  .top_k = 3,
                                  .top_p = 1.0f,
                                  .min_p = 0.0f,
                                  .logit_bias = {{0, 5.0f}, {2, kNever}}};
  // The samplers leave logits of 6, 5 and 5. The temperature makes them 12, 10 and 10.
  const double total = 1 + 2 * std::exp(-2.0);
  TokenSampler sampler = *TokenSampler::Make(options, 5);
  for (int i = 0; i < 20; ++i) {
    const TokenId token = sampler.Sample(kLogits);
    const TokenChances chances = sampler.Chances(token, 5);
    EXPECT_NEAR(chances.chosen, (token == 0 ? 1 : std::exp(-2.0)) / total, 1e-6);
    ASSERT_EQ(chances.likeliest.size(), 3u) << "others can't be drawn";
    const TokenId in_order[] = {0, 1, 4};
    for (size_t k = 0; k < 3; ++k) {
      EXPECT_EQ(chances.likeliest[k].token, in_order[k]);
      EXPECT_NEAR(chances.likeliest[k].value, (k == 0 ? 1 : std::exp(-2.0)) / total, 1e-6);
    }
    EXPECT_EQ(sampler.Chances(token, 2).likeliest.size(), 2u);
  }
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

TEST(SamplerTest, SamplesOfSomeTokensAlone) {
  const auto is_odd = [](TokenId token) { return token % 2 == 1; };
  const auto none = [](TokenId) { return false; };
  for (const float temperature : {0.0f, 1.0f}) {
    TokenSampler sampler = *TokenSampler::Make(
        {.temperature = temperature, .top_k = 0, .top_p = 1, .min_p = 0, .logit_bias = {}}, 5);
    const std::vector<float> logits = {9, 1, 8, -70, 9};
    EXPECT_EQ(sampler.SampleOf(logits, is_odd), 1);
    EXPECT_EQ(sampler.SampleOf(logits, none), std::nullopt);
    EXPECT_EQ(sampler.SampleOf(std::vector<float>{0, kNever, 0, kNever, 0}, is_odd), std::nullopt);
  }
}

TEST(SamplerTest, ABiasMayForbidAllOfThem) {
  const auto is_odd = [](TokenId token) { return token % 2 == 1; };
  for (const float temperature : {0.0f, 1.0f}) {
    TokenSampler sampler = *TokenSampler::Make(
        {.temperature = temperature, .logit_bias = {{1, kNever}, {3, kNever}}}, 5);
    EXPECT_EQ(sampler.SampleOf(std::vector<float>{1, 2, 3, 4, 5}, is_odd), std::nullopt);
    EXPECT_EQ(sampler.SampleOf(std::vector<float>{1, 2, 3, 4, 5},
                               [](TokenId token) { return token < 2; }),
              0);
  }
}

}  // namespace
}  // namespace attndb::llama
