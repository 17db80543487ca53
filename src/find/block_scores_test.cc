// Goal:   each block's maximum is the maximum for the question placed behind the block. Sinks and
//         heads with NaN or Inf are left out.
// Method: random keys; scores of rows turned one by one, added up in float64.
#include "find/block_scores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "find/find_test_util.h"
#include "testing/matchers.h"

namespace attndb::find {
namespace {

using ::attndb::test::FailsWith;
using ::testing::HasSubstr;

constexpr uint64_t kBlockTokens = 32;

class BlockScoresTest : public ::testing::Test {
 protected:
  BlockScoresTest() {
    Random random(5);
    std::vector<float> rows(kNumRows * stride());
    for (size_t row = 0; row < kNumRows; ++row) {
      for (uint32_t d = 0; d < layer().head_dim; ++d) {
        rows[row * stride() + d] = static_cast<float>(random.NextGaussian());
      }
    }
    question_ = std::make_unique<PlacedQuestion>(layer(), rows, kNumRows, 0);
  }

  const LayerSpec& layer() const { return spec_.layers[0]; }
  size_t stride() const { return kernels::RowElements(layer().head_dim); }

  std::vector<float> Score(const KeyRun& run) {
    runs_ = {run};
    const Blocks blocks(runs_, kBlockTokens);
    std::vector<float> maxima(kNumRows * blocks.num_blocks());
    status_ =
        ScoreRun(run, {0, 1}, *question_, TurnsBehind(layer(), kBlockTokens, blocks.longest_run()),
                 blocks, 0, maxima.data());
    return maxima;
  }

  // The best score of a row among tokens [begin, end) of kv head 1, with row 0 of the question at
  // `position`.
  double Expected(FakeRun* run, size_t row, uint64_t begin, uint64_t end, int64_t position) const {
    std::vector<float> turned(kNumRows * stride());
    question_->TurnBy(position).Rows(question_->rows(), kNumRows, stride(), turned.data());
    double best = -HUGE_VAL;
    for (uint64_t token = begin; token < end; ++token) {
      double score = 0;
      for (uint32_t d = 0; d < layer().head_dim; ++d) {
        score += double{turned[row * stride() + d]} * run->Key(1, token)[d];
      }
      best = std::max(best, score);
    }
    return best;
  }

  static constexpr size_t kNumRows = 7;
  const ModelSpec spec_ = TestSpec(2, 24);
  std::unique_ptr<PlacedQuestion> question_;
  std::vector<KeyRun> runs_;
  Status status_;
};

TEST_F(BlockScoresTest, MaximaAreThoseOfTheQuestionBehindEachBlock) {
  const auto keys = std::make_shared<FakeRun>(spec_, 210, 50, 1);
  for (const uint64_t num_tokens : {1U, 31U, 32U, 33U, 200U, 210U}) {
    const std::vector<float> maxima = Score({keys, num_tokens, 0});
    ATTNDB_ASSERT_OK(status_);
    const size_t num_blocks = maxima.size() / kNumRows;
    ASSERT_EQ(num_blocks, (num_tokens + 31) / 32);
    for (size_t row = 0; row < kNumRows; ++row) {
      for (size_t block = 0; block < num_blocks; ++block) {
        const uint64_t begin = block * kBlockTokens;
        const uint64_t end = std::min<uint64_t>(begin + kBlockTokens, num_tokens);
        const auto position = static_cast<int64_t>(50 + begin + kBlockTokens);
        EXPECT_NEAR(maxima[row * num_blocks + block],
                    Expected(keys.get(), row, begin, end, position), 1e-4)
            << num_tokens << " tokens, row " << row << ", block " << block;
      }
    }
  }
}

TEST_F(BlockScoresTest, SinksHaveNoSay) {
  const auto keys = std::make_shared<FakeRun>(spec_, 40, 0, 1);
  for (uint64_t token = 0; token < 4; ++token) {
    for (uint32_t d = 0; d < 24; ++d) keys->Key(1, token)[d] = 1000.0F;
  }
  const std::vector<float> maxima = Score({keys, 40, 4});
  for (size_t row = 0; row < kNumRows; ++row) {
    EXPECT_NEAR(maxima[row * 2], Expected(keys.get(), row, 4, 32, 32), 1e-4);
  }
  for (const float value : Score({keys, 3, 4})) EXPECT_TRUE(std::isnan(value));
}

TEST_F(BlockScoresTest, AHeadThatIsNotFiniteHasNoSay) {
  const auto keys = std::make_shared<FakeRun>(spec_, 100, 0, 1);
  keys->SetNonFinite();
  for (const float value : Score({keys, 100, 0})) EXPECT_TRUE(std::isnan(value));
  ATTNDB_EXPECT_OK(status_);
}

TEST_F(BlockScoresTest, DamageIsTold) {
  const auto keys = std::make_shared<FakeRun>(spec_, 100, 0, 1);
  keys->Damage();
  (void)Score({keys, 100, 0});
  EXPECT_THAT(status_, FailsWith(StatusCode::kCorruption, HasSubstr("granule")));
}

}  // namespace
}  // namespace attndb::find
