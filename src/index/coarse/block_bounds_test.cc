// Goal:   a block's bound is what the paper says, and no key of the block scores above it.
// Method: heads of keys that drift, of each element type; against sums in float64.
// Replay: ATTNDB_SEED=17 ctest -R index_test
#include "index/coarse/block_bounds.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "index/coarse/coarse_test_util.h"
#include "kernels/score.h"
#include "testing/seed.h"

namespace attndb::index::test {
namespace {

using ::attndb::test::SeedOr;

struct Case {
  DType dtype;
  size_t dim;
  size_t block_keys;
};

class BlockBoundsTest : public ::testing::TestWithParam<Case> {
 protected:
  static constexpr size_t kKeys = 530;  // The last block has fewer.
  BlockBoundsTest()
      : head_(GetParam().dtype, kKeys, GetParam().dim, SeedOr(11)),
        keys_(head_.Build({.summary = BlockSummary::kBounds,
                           .block_keys = static_cast<uint32_t>(GetParam().block_keys)})) {}

  // A bound of the rounding of float32 sums, from products of the largest values.
  double Rounding(const float* q) const {
    double sum = 0;
    for (size_t i = 0; i < kKeys; ++i) {
      const std::vector<double> k = head_.Key(i);
      double of_key = 0;
      for (size_t d = 0; d < k.size(); ++d) of_key += std::abs(double{q[d]} * k[d]);
      sum = std::max(sum, of_key);
    }
    return 4 * static_cast<double>(head_.dim()) * 0x1p-24 * sum;
  }

  DriftingHead head_;
  const BlockKeys keys_;
};

TEST_P(BlockBoundsTest, BoundsAreThoseOfThePaper) {
  const std::vector<float> q = head_.Query(3);
  const std::vector<float> scores = ScoreAll(keys_, q);
  const size_t num_blocks = keys_.shape().num_blocks();
  for (size_t r = 0; r < 3; ++r) {
    const float* const row = q.data() + r * head_.dim();
    for (size_t b = 0; b < num_blocks; ++b) {
      const size_t first = b * GetParam().block_keys;
      const size_t end = std::min(first + GetParam().block_keys, kKeys);
      EXPECT_NEAR(scores[r * num_blocks + b], PlainBound(head_, first, end, row), Rounding(row));
    }
  }
}

// By float64, and by the kernel that scores keys: both of them round.
TEST_P(BlockBoundsTest, NoKeyScoresAboveTheBoundOfItsBlock) {
  const std::vector<float> q = head_.Query(20);
  const std::vector<float> bounds = ScoreAll(keys_, q);
  const size_t num_blocks = keys_.shape().num_blocks();
  std::vector<float> exact(kKeys);
  for (size_t r = 0; r < 20; ++r) {
    const float* const row = q.data() + r * head_.dim();
    const double rounding = Rounding(row);
    kernels::ScoreRows(head_.keys(), kKeys, row, head_.dim(), 1, exact.data(), kKeys);
    for (size_t i = 0; i < kKeys; ++i) {
      const double bound = double{bounds[r * num_blocks + i / GetParam().block_keys]} + rounding;
      ASSERT_LE(Dot(row, head_.Key(i)), bound) << r << " " << i;
      ASSERT_LE(double{exact[i]}, bound) << r << " " << i;
    }
  }
}

// Along one channel the bound is reached.
TEST_P(BlockBoundsTest, ABoundIsReachedByAQueryOfOneChannel) {
  std::vector<float> q(head_.dim());
  for (const float along : {1.0f, -1.0f}) {
    q.assign(head_.dim(), 0.0f);
    q[5] = along;
    const std::vector<float> bounds = ScoreAll(keys_, q);
    for (size_t b = 0; b < bounds.size(); ++b) {
      double most = -1e30;
      const size_t first = b * GetParam().block_keys;
      for (size_t i = first; i < std::min(first + GetParam().block_keys, kKeys); ++i) {
        most = std::max(most, Dot(q.data(), head_.Key(i)));
      }
      EXPECT_EQ(double{bounds[b]}, most);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Heads, BlockBoundsTest,
    ::testing::Values(Case{DType::kFloat16, 64, 16}, Case{DType::kBFloat16, 128, 8},
                      Case{DType::kFloat32, 32, 64}, Case{DType::kFloat16, 512, 32}),
    [](const auto& test) {
      return std::string(DTypeName(test.param.dtype)) + "_" + std::to_string(test.param.dim);
    });

}  // namespace
}  // namespace attndb::index::test
