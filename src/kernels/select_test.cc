// Goal:   top-k and range select by their definitions, with ties and NaN, on every ISA.
// Method: random scores of several shapes against a stable sort.
// Replay: seeds are constants.
#include "kernels/select.h"

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/reference/reference.h"
#include "kernels/test_rows.h"

namespace attndb::kernels {
namespace {

constexpr uint32_t kUntouched = 0xdeadbeef;

class SelectTest : public IsaTest {
 protected:
  std::vector<uint32_t> TopK(const std::vector<float>& scores, size_t k) {
    AlignedFloats scratch(SelectTopKScratchBytes(scores.size()) / sizeof(float));
    std::vector<uint32_t> indices(std::min(k, scores.size()) + kSelectSlack + 1, kUntouched);
    const size_t count =
        SelectTopK(scores.data(), scores.size(), k, indices.data(), scratch.data());
    EXPECT_EQ(indices.back(), kUntouched);
    indices.resize(count);
    return indices;
  }
  std::vector<uint32_t> Range(const std::vector<float>& scores, float threshold) {
    std::vector<uint32_t> indices(scores.size() + kSelectSlack + 1, kUntouched);
    const size_t count = SelectRange(scores.data(), scores.size(), threshold, indices.data());
    EXPECT_EQ(indices.back(), kUntouched);
    indices.resize(count);
    return indices;
  }
};

TEST_P(SelectTest, TopKEqualsAStableSort) {
  for (const size_t n : Sizes{0, 1, 2, 15, 16, 17, 255, 256, 257, 1000, 5000, 20000}) {
    const std::vector<float> scores = Normal(n);
    for (const size_t k : Sizes{0, 1, 2, 10, 100, 512, 4999, 5000, 30000}) {
      ASSERT_EQ(TopK(scores, k), reference::TopK(scores, k)) << n << " " << k;
    }
  }
}

TEST_P(SelectTest, TopKTakesTiesByLowestIndex) {
  for (const size_t n : Sizes{100, 3000, 9000}) {
    std::vector<float> scores(n);
    for (float& score : scores) score = static_cast<float>(random_() % 5) - 2.0f;
    for (size_t i = 0; i < n; i += 7) scores[i] = i % 2 ? 0.0f : -0.0f;
    for (const size_t k : Sizes{1, 50, 99, 900}) {
      ASSERT_EQ(TopK(scores, k), reference::TopK(scores, k)) << n << " " << k;
    }
    ASSERT_EQ(TopK(std::vector<float>(n, 1.0f), 10), reference::TopK(std::vector<float>(n, 1), 10));
  }
}

TEST_P(SelectTest, TopKOfSortedAndClusteredScores) {
  std::vector<float> rising(8192), cluster(8192, -1.0f);
  for (size_t i = 0; i < rising.size(); ++i) rising[i] = static_cast<float>(i);
  for (size_t i = 4096; i < 4396; ++i) cluster[i] = 5.0f + static_cast<float>(i % 11);
  for (const size_t k : Sizes{1, 16, 200, 2000}) {
    EXPECT_EQ(TopK(rising, k), reference::TopK(rising, k));
    EXPECT_EQ(TopK(cluster, k), reference::TopK(cluster, k));
  }
}

TEST_P(SelectTest, TopKHoldsWhereEveryEighthScoreMisleads) {
  std::mt19937 random(4);
  std::normal_distribution<float> normal;
  for (const float offset : {-100.0f, 0.0f, 100.0f, std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> scores(8192);
    for (size_t i = 0; i < scores.size(); ++i)
      scores[i] = normal(random) + (i % 8 == 0 ? offset : 0);
    for (const size_t k : {257u, 512u, 1023u, 1025u, 2000u, 4096u, 8000u}) {
      ASSERT_EQ(TopK(scores, k), reference::TopK(scores, k)) << offset << " " << k;
    }
  }
}

TEST_P(SelectTest, InfinitiesAndNaNsAreOrdered) {
  std::vector<float> scores = Normal(6000);
  for (size_t i = 0; i < 6000; i += 101) scores[i] = kInf;
  for (size_t i = 1; i < 6000; i += 101) scores[i] = -kInf;
  for (const size_t k : Sizes{1, 40, 60, 500, 5990}) {
    EXPECT_EQ(TopK(scores, k), reference::TopK(scores, k)) << k;
  }
  for (size_t i = 2; i < 6000; i += 501) scores[i] = i % 2 ? kNaN : -kNaN;
  for (const size_t k : Sizes{1, 5, 40, 60, 500, 5990}) {
    EXPECT_EQ(TopK(scores, k), reference::TopK(scores, k)) << k;
  }
  EXPECT_EQ(Range(scores, 1.0f), reference::Range(scores, 1.0f));
  EXPECT_TRUE(std::isnan(MaxScore(scores.data(), scores.size())));
}

TEST_P(SelectTest, RangeEqualsTheDefinition) {
  for (const size_t n : Sizes{0, 1, 15, 16, 17, 63, 64, 65, 259, 3000}) {
    const std::vector<float> scores = Normal(n);
    for (const float threshold : {-kInf, -1.0f, 0.0f, 2.0f, 9.0f, kInf}) {
      ASSERT_EQ(Range(scores, threshold), reference::Range(scores, threshold)) << n;
    }
    if (n == 0) continue;
    EXPECT_FALSE(Range(scores, scores[n / 2]).empty());  // >= and not >.
  }
}

TEST_P(SelectTest, TakenAndMarkedAreTheRange) {
  for (const size_t n : Sizes{0, 1, 15, 16, 17, 63, 64, 65, 259, 3000}) {
    std::vector<float> scores = Normal(n);
    if (n > 20) scores[n / 3] = kNaN;
    for (const float threshold : {-kInf, -1.0f, 0.0f, 2.0f, kInf}) {
      const std::vector<uint32_t> range = reference::Range(scores, threshold);
      std::vector<float> taken(n + kSelectSlack + 1, 77.0f);
      std::vector<uint64_t> bits(n / 64 + 2, uint64_t{1} << 63);
      ASSERT_EQ(TakeNotBelow(scores.data(), n, threshold, taken.data()), range.size());
      MarkNotBelow(scores.data(), n, threshold, bits.data());
      EXPECT_EQ(taken.back(), 77.0f);
      EXPECT_EQ(bits.back(), uint64_t{1} << 63);
      std::vector<uint64_t> expected(bits.size(), uint64_t{1} << 63);
      for (size_t i = 0; i < range.size(); ++i) {
        expected[range[i] / 64] |= uint64_t{1} << range[i] % 64;
        ASSERT_TRUE(std::isnan(taken[i]) || taken[i] == scores[range[i]]);
      }
      ASSERT_EQ(bits, expected) << n << " " << threshold;
    }
  }
}

TEST_P(SelectTest, ATopThresholdHasKAndFewMore) {
  for (const size_t n : Sizes{1, 16, 100, 257, 4000, 4096, 5000, 100000}) {
    std::vector<float> scores = Normal(n);
    for (size_t i = 3; i < n; i += 9) scores[i] = -kInf;
    for (const size_t k : Sizes{1, 10, 100, 1000}) {
      AlignedFloats scratch(SelectTopKScratchBytes(n) / sizeof(float));
      const float threshold = TopThreshold(scores.data(), n, k, scratch.data());
      const size_t count = reference::Range(scores, threshold).size();
      if (k > n) {
        EXPECT_EQ(threshold, -kInf);
        continue;
      }
      EXPECT_GE(count, k) << n;
      EXPECT_TRUE(threshold == -kInf || count <= k + k / 8 + 1) << n;
    }
  }
}

TEST_P(SelectTest, ATopThresholdOfEqualsAndNaNs) {
  std::vector<float> scores(300, 2.0f);
  AlignedFloats scratch(SelectTopKScratchBytes(scores.size()) / sizeof(float));
  EXPECT_EQ(TopThreshold(scores.data(), scores.size(), 7, scratch.data()), 2.0f);
  for (size_t i = 0; i < 10; ++i) scores[i * 13] = i % 2 ? kNaN : -kNaN;
  EXPECT_EQ(TopThreshold(scores.data(), scores.size(), 7, scratch.data()), kInf);
  EXPECT_EQ(TopThreshold(scores.data(), scores.size(), 11, scratch.data()), 2.0f);
}

TEST_P(SelectTest, MaxIsTheLargest) {
  EXPECT_EQ(MaxScore(nullptr, 0), -kInf);
  for (const size_t n : Sizes{1, 15, 16, 17, 63, 64, 65, 259}) {
    const std::vector<float> scores = Normal(n);
    EXPECT_EQ(MaxScore(scores.data(), n), *std::max_element(scores.begin(), scores.end()));
    for (size_t i = 0; i < n; ++i) {
      std::vector<float> changed = scores;
      changed[i] = 100.0f;
      ASSERT_EQ(MaxScore(changed.data(), n), 100.0f);
      changed[i] = kNaN;
      ASSERT_TRUE(std::isnan(MaxScore(changed.data(), n)));
    }
  }
}

ATTNDB_INSTANTIATE_ISAS(SelectTest);

}  // namespace
}  // namespace attndb::kernels
