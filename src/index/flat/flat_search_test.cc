// Goal:   exact search agrees with sorting, for every split into sinks, middle and window.
#include "index/flat/flat_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "common/aligned_buffer.h"

namespace attndb::index {
namespace {

std::vector<float> RandomScores(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, 3.0f);
  std::vector<float> scores(n);
  for (float& score : scores) score = std::round(normal(random) * 4.0f) / 4.0f;  // Has ties.
  return scores;
}

std::vector<uint32_t> SortedTopK(const std::vector<float>& scores, TokenRange middle, size_t k) {
  std::vector<uint32_t> order(middle.end - middle.begin);
  std::iota(order.begin(), order.end(), static_cast<uint32_t>(middle.begin));
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return scores[a] > scores[b]; });
  order.resize(std::min(k, order.size()));
  std::sort(order.begin(), order.end());
  return order;
}

TEST(FlatSearchTest, TopKIsTheHeadOfTheSortedScores) {
  for (const size_t n : {1u, 17u, 300u, 5000u}) {
    const std::vector<float> scores = RandomScores(n, static_cast<uint32_t>(n));
    for (const TokenRange middle :
         {TokenRange{0, n}, TokenRange{n / 3, n - n / 4}, TokenRange{n, n}}) {
      for (const uint32_t k : {1u, 5u, 64u, 10000u}) {
        const FlatTopK search(k);
        std::vector<uint32_t> indices(search.NumIndices(n));
        Result<AlignedBuffer> scratch = AlignedBuffer::Allocate(search.ScratchBytes(n) + 64);
        ASSERT_TRUE(scratch.ok());
        indices.resize(search.Search(scores.data(), n, middle, indices.data(), scratch->data()));
        EXPECT_EQ(indices, SortedTopK(scores, middle, k)) << n << " " << k;
      }
    }
  }
}

TEST(FlatSearchTest, DiprIsRelativeToTheMaximumOverAllVisibleTokens) {
  for (const size_t n : {1u, 40u, 3000u}) {
    std::vector<float> scores = RandomScores(n, static_cast<uint32_t>(n) + 7);
    scores[0] = 20.0f;  // A sink outside the middle holds the maximum.
    const TokenRange middle = {n / 5, n - n / 7};
    for (const float beta : {0.0f, 12.0f, 18.5f, 1000.0f}) {
      std::vector<uint32_t> expected;
      for (size_t i = middle.begin; i < middle.end; ++i) {
        if (scores[i] >= *std::max_element(scores.begin(), scores.end()) - beta) {
          expected.push_back(static_cast<uint32_t>(i));
        }
      }
      const FlatDipr search(beta);
      std::vector<uint32_t> indices(search.NumIndices(n));
      indices.resize(search.Search(scores.data(), n, middle, indices.data(), nullptr));
      EXPECT_EQ(indices, expected) << n << " " << beta;
    }
  }
}

}  // namespace
}  // namespace attndb::index
