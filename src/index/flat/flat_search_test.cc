// Goal:   exact search agrees with sorting, for every split into sinks, middle and window.
#include "index/flat/flat_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "common/aligned_buffer.h"
#include "index/search_test_util.h"

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
  for (const size_t n : {1u, 17u, 300u, 5000u, 40000u}) {
    const std::vector<float> scores = RandomScores(n, static_cast<uint32_t>(n));
    TestScores view(scores);
    for (const TokenRange middle :
         {TokenRange{0, n}, TokenRange{n / 3, n - n / 4}, TokenRange{n, n}}) {
      for (const uint32_t k : {1u, 5u, 64u, 10000u}) {
        const FlatTopK search(k);
        std::vector<uint32_t> indices(search.NumIndices(n));
        Result<AlignedBuffer> scratch = AlignedBuffer::Allocate(search.ScratchBytes(n) + 64);
        ASSERT_TRUE(scratch.ok());
        indices.resize(search.Search({view.view(), middle}, indices.data(), scratch->data()));
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
      TestScores view(scores);
      std::vector<uint32_t> indices(search.NumIndices(n));
      indices.resize(search.Search({view.view(), middle}, indices.data(), nullptr));
      EXPECT_EQ(indices, expected) << n << " " << beta;
    }
  }
}

// Estimates: normal errors around exact scores. What is exact decides in the end.
template <typename Search>
std::vector<uint32_t> SearchEstimates(const Search& search, const std::vector<float>& exact,
                                      TokenRange middle, float error, size_t* num_candidates) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0.0f, error);
  std::vector<float> scores = exact;
  for (size_t i = middle.begin; i < middle.end; ++i) scores[i] += normal(random);
  std::vector<uint32_t> indices(search.NumIndices(exact.size()));
  AlignedBuffer scratch = *AlignedBuffer::Allocate(search.ScratchBytes(exact.size()) + 64);
  TestScores view(scores);
  const SearchCall call = {view.view(), middle, error};
  *num_candidates = search.Search(call, indices.data(), scratch.data());
  float max = -1e30f;
  for (size_t i = 0; i < exact.size(); ++i) {
    if (i < middle.begin || i >= middle.end) max = std::max(max, exact[i]);
  }
  for (size_t i = 0; i < *num_candidates; ++i) {
    max = std::max(max, view[indices[i]] = exact[indices[i]]);
  }
  indices.resize(search.Refine(call, max, indices.data(), *num_candidates, scratch.data()));
  return indices;
}

TEST(FlatSearchTest, EstimatesFindWhatExactScoresFind) {
  const std::vector<float> scores = RandomScores(20000, 11);
  const TokenRange middle = {100, 19000};
  size_t num_candidates = 0;
  const std::vector<uint32_t> top =
      SearchEstimates(FlatTopK(100), scores, middle, 0.5f, &num_candidates);
  const std::vector<uint32_t> expected = SortedTopK(scores, middle, 100);
  std::vector<uint32_t> both;
  std::ranges::set_intersection(top, expected, std::back_inserter(both));
  EXPECT_EQ(top.size(), 100u);
  EXPECT_GE(both.size(), 95u);  // Ties at the last place may fall either way.
  EXPECT_LE(num_candidates, 400u);

  const float max = *std::max_element(scores.begin(), scores.end());
  const std::vector<uint32_t> range =
      SearchEstimates(FlatDipr(4.0f), scores, middle, 0.5f, &num_candidates);
  size_t num_expected = 0;
  for (size_t i = middle.begin; i < middle.end; ++i) num_expected += scores[i] >= max - 4.0f;
  for (const uint32_t i : range) EXPECT_GE(scores[i], max - 4.0f);
  EXPECT_GE(range.size(), num_expected * 99 / 100);
}

}  // namespace
}  // namespace attndb::index
