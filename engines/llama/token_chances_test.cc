// Goal:   log-probabilities are the log-softmax of the logits, and the likeliest tokens come in
//         order, whatever the logits are.
// Method: sums in long double, and sorting; random logits of several spreads, equal ones, infinite
//         ones.
#include "engines/llama/token_chances.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "testing/seed.h"

namespace attndb::llama {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// The log-softmax of one logit by its definition.
long double Expected(const std::vector<float>& logits, TokenId token) {
  const auto own = static_cast<long double>(logits[static_cast<size_t>(token)]);
  long double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<long double>(logit) - own);
  return -std::log(sum);
}

std::vector<TokenId> Sorted(const std::vector<float>& logits) {
  std::vector<TokenId> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::ranges::stable_sort(ids, [&](TokenId a, TokenId b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  return ids;
}

std::vector<TokenId> IdsOf(const TokenChances& chances) {
  std::vector<TokenId> ids;
  for (const TokenChance& chance : chances.likeliest) ids.push_back(chance.token);
  return ids;
}

TEST(TokenChancesTest, AreTheLogSoftmaxInOrder) {
  std::mt19937_64 random(::attndb::test::SeedOr(11));
  for (const float spread : {0.0f, 0.01f, 1.0f, 8.0f, 300.0f}) {
    for (const size_t size : {size_t{1}, size_t{2}, size_t{21}, size_t{5000}}) {
      std::normal_distribution<float> draw(10.0f, std::max(spread, 1e-6f));
      std::vector<float> logits(size);
      for (float& logit : logits) logit = spread == 0 ? 10.0f : std::round(draw(random) * 16) / 16;
      const auto chosen = static_cast<TokenId>(random() % size);
      const TokenChances chances = LogChances(logits, chosen, 20);
      EXPECT_NEAR(chances.chosen, static_cast<double>(Expected(logits, chosen)), 1e-12);
      std::vector<TokenId> expected = Sorted(logits);
      expected.resize(std::min<size_t>(size, 20));
      EXPECT_EQ(IdsOf(chances), expected) << "of equals the smaller id comes first";
      for (const auto& [token, value] : chances.likeliest) {
        EXPECT_NEAR(value, static_cast<double>(Expected(logits, token)), 1e-12);
      }
    }
  }
}

TEST(TokenChancesTest, SumUpToOne) {
  std::mt19937_64 random(::attndb::test::SeedOr(12));
  std::normal_distribution<float> draw(-3.0f, 6.0f);
  std::vector<float> logits(4000);
  for (float& logit : logits) logit = draw(random);
  double sum = 0;
  for (const TokenChance& chance : LogChances(logits, 0, logits.size()).likeliest) {
    sum += std::exp(chance.value);
  }
  EXPECT_NEAR(sum, 1, 1e-12);
}

TEST(TokenChancesTest, LargeLogitsDoNotOverflow) {
  const TokenChances chances = LogChances(std::vector<float>{3e38f, 3e38f, -3e38f}, 1, 1);
  EXPECT_NEAR(chances.chosen, -std::log(2), 1e-12);
  EXPECT_EQ(IdsOf(chances), std::vector<TokenId>{0});
}

TEST(TokenChancesTest, ALogitThatIsNeverChosenHasNoChance) {
  const TokenChances chances = LogChances(std::vector<float>{kNever, 1.0f, 1.0f}, 0, 3);
  EXPECT_EQ(chances.chosen, -std::numeric_limits<double>::infinity());
  EXPECT_EQ(IdsOf(chances), (std::vector<TokenId>{1, 2, 0}));
  EXPECT_NEAR(chances.likeliest[0].value, -std::log(2), 1e-12);
}

TEST(TokenChancesTest, NoneOfTheLikeliestMayBeAskedFor) {
  const TokenChances chances = LogChances(std::vector<float>{0.0f, 0.0f}, 0, 0);
  EXPECT_NEAR(chances.chosen, -std::log(2), 1e-12);
  EXPECT_TRUE(chances.likeliest.empty());
}

}  // namespace
}  // namespace attndb::llama
