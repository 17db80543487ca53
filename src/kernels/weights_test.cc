// Goal:   weights and their sums equal those in float64, for any length, cap and maximum.
// Replay: seeds are constants.
#include "kernels/weights.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/reference/reference.h"
#include "kernels/test_rows.h"

namespace attndb::kernels {
namespace {

constexpr LogitSpec kLogits[] = {{.scale = 0.125f}, {.scale = 0.3f, .soft_cap = 5.0f}};

class WeightsTest : public IsaTest {};

TEST_P(WeightsTest, EqualFloat64) {
  for (const LogitSpec& logit : kLogits) {
    for (const size_t n : Sizes{0, 1, 7, 16, 63, 64, 65, 200, 1000}) {
      const std::vector<float> scores = Normal(n, 20.0f);
      const float max = 3.5f;
      std::vector<float> weights(n), sums(NumWeightBlocks(n));
      ExpWeights(scores.data(), n, logit, max, weights.data());
      SumWeights(scores.data(), n, logit, max, sums.data());
      std::vector<double> expected(sums.size());
      for (size_t i = 0; i < n; ++i) {
        const double weight = std::exp(reference::LogitOf(scores[i], logit) - double{max});
        ASSERT_NEAR(weights[i], weight, 2e-6 * weight + 1e-30) << n << " " << i;
        expected[i / kWeightBlock] += weight;
      }
      for (size_t b = 0; b < sums.size(); ++b) {
        ASSERT_NEAR(sums[b], expected[b], 4e-6 * expected[b]) << n << " " << b;
      }
    }
  }
}

TEST_P(WeightsTest, MinusInfinityWeighsNothingAndNaNShows) {
  for (const LogitSpec& logit : kLogits) {
    std::vector<float> scores(70, -kInf);
    std::vector<float> weights(70, kNaN), sums(2, kNaN);
    for (const float max : {0.0f, -kInf}) {
      ExpWeights(scores.data(), 70, logit, max, weights.data());
      SumWeights(scores.data(), 70, logit, max, sums.data());
      EXPECT_EQ(weights, std::vector<float>(70, 0.0f));
      EXPECT_EQ(sums, std::vector<float>(2, 0.0f));
    }
    scores[66] = kNaN;
    SumWeights(scores.data(), 70, logit, 0.0f, sums.data());
    EXPECT_EQ(sums[0], 0.0f);
    EXPECT_TRUE(std::isnan(sums[1]));
  }
}

TEST_P(WeightsTest, MayReplaceTheScores) {
  std::vector<float> scores = Normal(77, 3.0f), weights(77);
  ExpWeights(scores.data(), 77, kLogits[0], 1.0f, weights.data());
  ExpWeights(scores.data(), 77, kLogits[0], 1.0f, scores.data());
  EXPECT_EQ(scores, weights);
}

TEST_P(WeightsTest, SumsWhatIsNotBelow) {
  for (const size_t n : Sizes{0, 1, 31, 64, 1000}) {
    std::vector<float> weights = Normal(n, 1.0f);
    for (float& weight : weights) weight = std::exp(weight);
    for (const float threshold : {0.0f, 0.7f, n > 5 ? weights[5] : 1.0f, 1e9f}) {
      double expected = 0;
      for (const float weight : weights) expected += weight < threshold ? 0.0 : double{weight};
      ASSERT_NEAR(SumNotBelow(weights.data(), n, threshold), expected, 1e-6 * expected) << n;
    }
  }
}

TEST(LogitTest, ScoresAndLogitsAreInverse) {
  for (const LogitSpec& logit : kLogits) {
    for (const float score : {-12.0f, -0.5f, 0.0f, 3.0f, 11.0f}) {
      EXPECT_NEAR(ScoreOfLogit(LogitOf(score, logit), logit), score, 1e-4f);
    }
  }
  EXPECT_EQ(ScoreOfLogit(-5.0f, kLogits[1]), -kInf);
  EXPECT_EQ(ScoreOfLogit(6.0f, kLogits[1]), kInf);
}

ATTNDB_INSTANTIATE_ISAS(WeightsTest);

}  // namespace
}  // namespace attndb::kernels
