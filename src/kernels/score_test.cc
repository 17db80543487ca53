// Goal:   scores equal the float64 twin within the bound of float32 summation.
// Method: grid over ISA, dtype, lengths, dims and group sizes; poison around rows and results.
// Replay: seeds are constants.
#include "kernels/score.h"

#include <vector>

#include "gtest/gtest.h"
#include "kernels/reference/reference.h"
#include "kernels/test_rows.h"

namespace attndb::kernels {
namespace {

class ScoreTest : public IsaTest {
 protected:
  void Check(DType dtype, size_t num_tokens, size_t head_dim, size_t group, bool misaligned) {
    const TestRows k(dtype, num_tokens, head_dim, misaligned, &random_);
    const TestQueries q(group, head_dim, &random_);
    const size_t stride = num_tokens + 3;
    std::vector<float> scores(group * stride, -7.0f);
    ScoreRows(k.view(), num_tokens, q.data(), q.stride(), group, scores.data(), stride);
    for (size_t r = 0; r < group; ++r) {
      for (size_t i = 0; i < stride; ++i) {
        const float score = scores[r * stride + i];
        if (i >= num_tokens) {
          ASSERT_EQ(score, -7.0f) << "wrote past the scores";
          continue;
        }
        const auto expected = reference::DotRow(k.view(), i, q.data() + r * q.stride());
        const double eps = 0x1p-24;
        ASSERT_NEAR(score, expected.score, 16 * eps * expected.magnitude)
            << DTypeName(dtype) << " token " << i << " row " << r << " dim " << head_dim;
      }
    }
  }
};

TEST_P(ScoreTest, EqualsFloat64ForEveryLength) {
  for (const DType dtype : kAllDTypes) {
    for (const size_t num_tokens : Sizes{0, 1, 3, 4, 7, 8, 9, 63, 64, 65, 259, 333}) {
      for (const bool misaligned : {false, true}) Check(dtype, num_tokens, 96, 3, misaligned);
    }
  }
}

TEST_P(ScoreTest, EqualsFloat64ForEveryHeadDimAndGroup) {
  for (const DType dtype : kAllDTypes) {
    for (const size_t head_dim : Sizes{16, 32, 64, 80, 96, 128, 256})
      Check(dtype, 70, head_dim, 2, true);
    for (const size_t group : Sizes{1, 2, 3, 4, 5, 6, 7, 8, 9, 16})
      Check(dtype, 70, 64, group, false);
  }
}

TEST_P(ScoreTest, GatherScoresTheListedTokens) {
  const TestRows k(DType::kFloat16, 1000, 128, false, &random_);
  const TestQueries q(2, 128, &random_);
  for (const size_t n : Sizes{0, 1, 5, 64, 100}) {
    std::vector<uint32_t> tokens(n);
    for (uint32_t& token : tokens) token = static_cast<uint32_t>(random_() % 1000);
    std::vector<float> scores(2 * n);
    ScoreGather(k.view(), tokens.data(), n, q.data(), q.stride(), 2, scores.data(), n);
    for (size_t j = 0; j < 2 * n; ++j) {
      const auto expected =
          reference::DotRow(k.view(), tokens[j % n], q.data() + j / n * q.stride());
      EXPECT_NEAR(scores[j], expected.score, 1e-6 * expected.magnitude);
    }
  }
}

TEST_P(ScoreTest, NaNAndInfGoThrough) {
  TestRows k(DType::kBFloat16, 5, 32, false, &random_);
  TestQueries q(1, 32, &random_);
  q.row(0)[3] = 2.0f;
  k.Set(1, 3, kNaN);
  k.Set(2, 3, kInf);
  k.Set(3, 3, -kInf);
  std::vector<float> scores(5);
  ScoreRows(k.view(), 5, q.data(), q.stride(), 1, scores.data(), 5);
  EXPECT_TRUE(std::isfinite(scores[0]));
  EXPECT_TRUE(std::isnan(scores[1]));
  EXPECT_EQ(scores[2], kInf);
  EXPECT_EQ(scores[3], -kInf);
}

ATTNDB_INSTANTIATE_ISAS(ScoreTest);

}  // namespace
}  // namespace attndb::kernels
