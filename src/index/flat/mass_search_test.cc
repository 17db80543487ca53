// Goal:   the set is the smallest that holds the mass, for any sinks, window and cap.
// Method: against sorting in float64.
#include "index/flat/mass_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "common/aligned_buffer.h"
#include "index/search_test_util.h"

namespace attndb::index {
namespace {

class Scores {
 public:
  Scores(size_t n, float spread, uint32_t seed) : values_(n) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0.0f, spread);
    for (float& value : values_) value = normal(random);
  }

  // The mass that is in the summary is found without it too.
  std::vector<uint32_t> Search(double p, const kernels::LogitSpec& logit, TokenRange middle,
                               float denominator = -std::numeric_limits<float>::infinity()) const {
    const MassSearch search(p, logit);
    std::vector<uint32_t> indices(search.NumIndices(values_.size()));
    AlignedBuffer scratch = *AlignedBuffer::Allocate(search.ScratchBytes(values_.size()));
    TestScores scores(values_, logit);
    indices.resize(
        search.Search({.view = scores.view(), .middle = middle, .denominator_logit = denominator},
                      indices.data(), scratch.data()));
    std::vector<uint32_t> without(search.NumIndices(values_.size()));
    ScoreView view = scores.view();
    view.sums = nullptr;
    without.resize(search.Search({.view = view, .middle = middle, .denominator_logit = denominator},
                                 without.data(), scratch.data()));
    EXPECT_NEAR(static_cast<double>(without.size()), static_cast<double>(indices.size()), 1);
    return indices;
  }

  double Weight(size_t i, const kernels::LogitSpec& logit) const {
    const double scaled = double{values_[i]} * double{logit.scale};
    const double cap = double{logit.soft_cap};
    return std::exp(cap == 0 ? scaled : cap * std::tanh(scaled / cap));
  }
  double Mass(TokenRange range, const kernels::LogitSpec& logit) const {
    double mass = 0;
    for (size_t i = range.begin; i < range.end; ++i) mass += Weight(i, logit);
    return mass;
  }

  std::vector<float>& values() { return values_; }

 private:
  std::vector<float> values_;
};

TEST(MassSearchTest, TheSetIsSmallestAndHoldsTheMass) {
  for (const kernels::LogitSpec logit :
       {kernels::LogitSpec{0.5f}, kernels::LogitSpec{1.0f, 8.0f}}) {
    for (const size_t n : {1u, 2u, 65u, 900u, 20000u}) {
      const Scores scores(n, 4.0f, static_cast<uint32_t>(n));
      for (const TokenRange middle : {TokenRange{0, n}, TokenRange{n / 5, n - n / 9}}) {
        for (const double p : {0.3, 0.9, 0.99, 0.9999}) {
          const std::vector<uint32_t> chosen = scores.Search(p, logit, middle);
          const double all = scores.Mass({0, n}, logit);
          double mass = all - scores.Mass(middle, logit);
          double lightest = all;
          for (const uint32_t i : chosen) {
            ASSERT_TRUE(middle.begin <= i && i < middle.end);
            mass += scores.Weight(i, logit);
            lightest = std::min(lightest, scores.Weight(i, logit));
          }
          const bool is_all = chosen.size() == middle.end - middle.begin;
          ASSERT_TRUE(std::is_sorted(chosen.begin(), chosen.end()));
          ASSERT_GE(mass, (is_all ? 0 : p) * all * (1 - 1e-5)) << n << " " << p;
          if (!chosen.empty()) {
            ASSERT_LT(mass - lightest, p * all * (1 + 1e-5)) << n << " " << p;
          }
          for (size_t i = middle.begin; i < middle.end; ++i) {  // Nothing heavier was left out.
            if (std::ranges::binary_search(chosen, static_cast<uint32_t>(i))) continue;
            ASSERT_LE(scores.Weight(i, logit), lightest * (1 + 1e-5));
          }
        }
      }
    }
  }
}

TEST(MassSearchTest, ADenominatorIsPartOfTheMassAndHeldInAnyCase) {
  const kernels::LogitSpec logit = {0.5f};
  const Scores scores(3000, 4.0f, 7);
  const TokenRange middle = {30, 2900};
  const double tokens = scores.Mass({0, 3000}, logit);
  size_t before = scores.Search(0.9, logit, middle).size();
  for (const double share : {0.01, 1.0, 4.0}) {
    const auto denominator = static_cast<float>(std::log(share * tokens));
    const std::vector<uint32_t> chosen = scores.Search(0.9, logit, middle, denominator);
    double held = share * tokens + tokens - scores.Mass(middle, logit);
    double lightest = tokens;
    for (const uint32_t i : chosen) {
      held += scores.Weight(i, logit);
      lightest = std::min(lightest, scores.Weight(i, logit));
    }
    const double need = 0.9 * (1 + share) * tokens;
    EXPECT_GE(held, need * (1 - 1e-5)) << share;
    EXPECT_LT(held - lightest, need * (1 + 1e-5)) << share;
    EXPECT_LT(chosen.size(), before) << share;
    before = chosen.size();
  }
  // However much it weighs, all of the mass is all tokens, and less of it is none.
  for (const float denominator : {30.0f, 2000.0f, 1e30f}) {
    EXPECT_EQ(scores.Search(1.0, logit, middle, denominator).size(), 2870u);
    EXPECT_TRUE(scores.Search(0.9, logit, middle, denominator).empty());
  }
}

TEST(MassSearchTest, NothingIsNeededWhereSinksAndWindowHoldIt) {
  Scores scores(1000, 1.0f, 1);
  scores.values()[0] = 100.0f;
  EXPECT_TRUE(scores.Search(0.99, {1.0f}, {4, 900}).empty());
}

TEST(MassSearchTest, AllOfItIsEveryTokenAndNaNHidesNone) {
  Scores scores(500, 1.0f, 2);
  EXPECT_EQ(scores.Search(1.0, {1.0f}, {10, 490}).size(), 480u);
  scores.values()[300] = std::nanf("");
  EXPECT_EQ(scores.Search(0.5, {1.0f}, {10, 490}).size(), 480u);
}

TEST(MassSearchTest, EqualScoresAreTakenFromTheFront) {
  Scores scores(1000, 0.0f, 3);
  const std::vector<uint32_t> chosen = scores.Search(0.25, {1.0f}, {0, 1000});
  ASSERT_NEAR(static_cast<double>(chosen.size()), 250, 1);
  EXPECT_EQ(chosen.back(), chosen.size() - 1);
}

}  // namespace
}  // namespace attndb::index
