// Goal:   what a view says of a range is what its scores say, wherever the range cuts its blocks
//         and whatever was changed since the summary.
// Method: against sums in float64.
// Replay: seeds are constants.
#include "index/score_view.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "index/search_test_util.h"
#include "kernels/select.h"

namespace attndb::index {
namespace {

constexpr TokenRange kRanges[] = {{0, 1000}, {0, 0},   {5, 5},     {16, 872},
                                  {64, 128}, {70, 75}, {960, 1000}};

std::vector<float> RandomScores() {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0f, 3.0f);
  std::vector<float> scores(1000);
  for (float& score : scores) score = normal(random);
  return scores;
}

double MassOf(const ScoreView& view, TokenRange range) {
  double mass = 0;
  for (size_t i = range.begin; i < range.end; ++i) mass += std::exp(double{view.scores[i]} - 2.0);
  return mass;
}

TEST(ScoreViewTest, MassesOfARangeAreThoseOfItsTokens) {
  TestScores scores(RandomScores());
  ScoreView view = scores.view();
  const float* const sums = view.sums;
  for (const bool changed : {false, true}) {
    if (changed) {
      for (const uint32_t token : {3u, 100u, 101u, 999u}) {
        scores[token] = -std::numeric_limits<float>::infinity();
        view.MarkChanged(token);
      }
    }
    for (const TokenRange range : kRanges) {
      std::vector<float> masses(NumBlocks(range));
      const double mass = WeighRange(view, range, {1.0f}, 2.0f, masses.data());
      EXPECT_NEAR(mass, MassOf(view, range), 1e-5 * mass);
      ScoreView without = view;
      without.sums = nullptr;
      EXPECT_NEAR(WeighRange(without, range, {1.0f}, 2.0f, masses.data()), mass, 1e-5 * mass);
    }
  }
  EXPECT_LT(sums[0], 0);
  EXPECT_GT(sums[3], 0);
}

TEST(ScoreViewTest, SelectsTheTokensOfTheRange) {
  TestScores scores(RandomScores());
  const ScoreView view = scores.view();
  EXPECT_EQ(view.Max(), kernels::MaxScore(view.scores, 1000));
  for (const TokenRange range : kRanges) {
    std::vector<uint32_t> expected;
    for (size_t i = range.begin; i < range.end; ++i) {
      if (view.scores[i] >= 2.0f) expected.push_back(static_cast<uint32_t>(i));
    }
    std::vector<uint32_t> found(range.end - range.begin + 64 + kernels::kSelectSlack);
    found.resize(SelectTokens(view, range, 2.0f, found.data()));
    EXPECT_EQ(found, expected);
  }
}

TEST(ScoreViewTest, ANaNMakesMassAndMaximumNaN) {
  std::vector<float> values = RandomScores();
  values[500] = std::nanf("");
  TestScores scores(values);
  std::vector<float> masses(16);
  EXPECT_TRUE(std::isnan(scores.view().Max()));
  EXPECT_TRUE(std::isnan(WeighRange(scores.view(), {0, 1000}, {1.0f}, 0.0f, masses.data())));
}

}  // namespace
}  // namespace attndb::index
