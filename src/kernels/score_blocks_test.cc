// Goal:   a summary of scores agrees with the scores: their maxima, masses, and the scores that a
//         threshold selects.
// Method: against float64, and against the functions that read every score.
// Replay: seeds are constants.
#include "kernels/score_blocks.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/reference/reference.h"
#include "kernels/select.h"
#include "kernels/test_rows.h"

namespace attndb::kernels {
namespace {

constexpr LogitSpec kLogits[] = {{.scale = 0.125f}, {.scale = 0.3f, .soft_cap = 5.0f}};

class ScoreBlocksTest : public IsaTest {};

TEST_P(ScoreBlocksTest, SumsAndMassesEqualFloat64) {
  for (const LogitSpec& logit : kLogits) {
    for (const size_t n : Sizes{0, 1, 63, 64, 65, 500, 1024}) {
      const std::vector<float> scores = Normal(n, 20.0f);
      const size_t num_blocks = NumWeightBlocks(n);
      std::vector<float> maxima(num_blocks), sums(num_blocks), masses(num_blocks);
      SummarizeScores(scores.data(), n, logit, maxima.data(), sums.data());
      WeighBlocks(maxima.data(), sums.data(), num_blocks, logit, 1.5f, masses.data());
      for (size_t b = 0; b < num_blocks; ++b) {
        const auto first = scores.begin() + static_cast<ptrdiff_t>(b * kWeightBlock);
        const auto last = scores.begin() + static_cast<ptrdiff_t>(std::min(n, (b + 1) * 64));
        EXPECT_EQ(maxima[b], *std::max_element(first, last));
        double sum = 0;
        for (auto score = first; score != last; ++score) {
          sum += std::exp(reference::LogitOf(*score, logit));
        }
        const double top = std::exp(reference::LogitOf(maxima[b], logit));
        EXPECT_NEAR(sums[b], sum / top, 4e-6 * sum / top) << n << " " << b;
        EXPECT_NEAR(masses[b], sum / std::exp(1.5), 1e-5 * sum) << n << " " << b;
      }
      std::vector<float> alone(num_blocks);
      SummarizeScores(scores.data(), n, logit, alone.data(), nullptr);
      EXPECT_EQ(alone, maxima);
    }
  }
}

TEST_P(ScoreBlocksTest, NothingWeighsNothingAndNaNShows) {
  for (const LogitSpec& logit : kLogits) {
    std::vector<float> scores(200, -kInf);
    scores[130] = kNaN;
    scores[199] = 1.0f;
    std::vector<float> maxima(4), sums(4), masses(4);
    SummarizeScores(scores.data(), 200, logit, maxima.data(), sums.data());
    EXPECT_EQ(maxima[0], -kInf);
    EXPECT_EQ(sums[0], 0.0f);
    EXPECT_TRUE(std::isnan(maxima[2]));
    EXPECT_EQ(maxima[3], 1.0f);
    EXPECT_EQ(sums[3], 1.0f);
    WeighBlocks(maxima.data(), sums.data(), 4, logit, 0.0f, masses.data());
    EXPECT_EQ(masses[0], 0.0f);
    EXPECT_TRUE(std::isnan(masses[2]));
  }
}

TEST_P(ScoreBlocksTest, SelectsWhatAFullPassSelects) {
  for (const size_t n : Sizes{0, 1, 70, 128, 3000}) {
    std::vector<float> scores = Normal(n, 20.0f);
    if (n > 100) scores[90] = kNaN;
    std::vector<float> maxima(NumWeightBlocks(n));
    SummarizeScores(scores.data(), n, {1.0f}, maxima.data(), nullptr);
    for (const float threshold : {-kInf, -10.0f, 30.0f, 55.0f, kInf}) {
      std::vector<uint32_t> expected(n + kSelectSlack), found(n + kSelectSlack);
      expected.resize(SelectRange(scores.data(), n, threshold, expected.data()));
      found.resize(SelectFromBlocks(scores.data(), n, maxima.data(), threshold, found.data()));
      EXPECT_EQ(found, expected) << n << " " << threshold;
    }
  }
}

ATTNDB_INSTANTIATE_ISAS(ScoreBlocksTest);

}  // namespace
}  // namespace attndb::kernels
