// Goal:   sums are capped token by token, and noise selects whom it lifts over the threshold.
// Method: against float64, for any length and cap; what lies within rounding may go either way.
// Replay: seeds are constants.
#include "kernels/draw.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/reference/reference.h"
#include "kernels/select.h"
#include "kernels/test_rows.h"

namespace attndb::kernels {
namespace {

constexpr LogitSpec kLogits[] = {{.scale = 0.125f}, {.scale = 0.3f, .soft_cap = 5.0f}};

class DrawTest : public IsaTest {};

TEST_P(DrawTest, SumsAreCapped) {
  for (const size_t n : Sizes{0, 1, 31, 64, 1000}) {
    std::vector<float> weights = Normal(n, 1.0f);
    for (float& weight : weights) weight = std::exp(weight);
    for (const float limit : {0.0f, 0.7f, 1e9f}) {
      double expected = 0;
      for (const float weight : weights) expected += std::min(double{weight}, double{limit});
      ASSERT_NEAR(SumAtMost(weights.data(), n, limit), expected, 1e-6 * expected) << n;
    }
  }
}

TEST_P(DrawTest, LiftsAreOverTheThresholdOfTheHighestRow) {
  constexpr size_t kStride = 1001;
  const std::vector<float> thresholds = {1.5f, -2.0f, 0.25f, 4.0f, -1.0f, -3.0f, 2.0f, 0.0f};
  for (const LogitSpec& logit : kLogits) {
    const std::vector<float> scores = Normal(8 * kStride, 10.0f);
    for (const size_t n : Sizes{0, 1, 31, 64, 1000}) {
      for (const size_t num_rows : Sizes{1, 2, 3, 5, 8}) {
        std::vector<float> lifts(n);
        LiftScores(scores.data(), kStride, num_rows, n, logit, thresholds.data(), lifts.data());
        for (size_t i = 0; i < n; ++i) {
          double expected = -kInf;
          for (size_t r = 0; r < num_rows; ++r) {
            const double value = reference::LogitOf(scores[r * kStride + i], logit);
            expected = std::max(expected, value - double{thresholds[r]});
          }
          ASSERT_NEAR(lifts[i], expected, 1e-5) << n << " " << i;
        }
      }
    }
  }
}

TEST_P(DrawTest, SelectsWhomTheNoiseLifts) {
  for (const size_t n : Sizes{0, 1, 31, 64, 1000}) {
    const std::vector<float> lifts = Normal(n, 10.0f);
    const std::vector<float> noise = Normal(n, 1.0f);
    std::vector<uint32_t> expected;
    for (uint32_t i = 0; i < n; ++i) {
      if (lifts[i] + noise[i] >= 0.0f) expected.push_back(i);
    }
    std::vector<uint32_t> indices(n + kSelectSlack);
    indices.resize(SelectLifted(lifts.data(), noise.data(), n, indices.data()));
    ASSERT_EQ(indices, expected) << n;
  }
}

TEST_P(DrawTest, NaNIsLiftedAndMinusInfinityIsNot) {
  const std::vector<float> thresholds = {-30.0f, 2.0f};
  for (const LogitSpec& logit : kLogits) {
    std::vector<float> scores(2 * 70, -kInf);
    scores[3] = kNaN;
    scores[70 + 68] = kNaN;
    std::vector<float> lifts(70);
    LiftScores(scores.data(), 70, 2, 70, logit, thresholds.data(), lifts.data());
    EXPECT_EQ(lifts[3], kInf);
    EXPECT_EQ(lifts[4], -kInf);
    const std::vector<float> noise(70, 9.0f);
    std::vector<uint32_t> indices(70 + kSelectSlack);
    ASSERT_EQ(SelectLifted(lifts.data(), noise.data(), 70, indices.data()), 2u);
    EXPECT_EQ(indices[0], 3u);
    EXPECT_EQ(indices[1], 68u);
  }
}

TEST_P(DrawTest, EveryTokenIsLiftedByNoThreshold) {
  const std::vector<float> scores(20, -5.0f);
  const float threshold = -kInf;
  std::vector<float> lifts(20);
  LiftScores(scores.data(), 20, 1, 20, kLogits[0], &threshold, lifts.data());
  for (const float lift : lifts) EXPECT_EQ(lift, kInf);
}

ATTNDB_INSTANTIATE_ISAS(DrawTest);

}  // namespace
}  // namespace attndb::kernels
