// Goal:   a search scores exactly the keys of the clusters that are ranked highest for the group.
//         Each row finds its best among these keys, and no hidden key is found.
// Method: keys around topics, q rows near some of them; against a selection in float64 by sorting.
// Replay: a test's seed is its parameter.
#include "index/coarse/wave_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "index/clustered/clusters_test_util.h"
#include "index/coarse/wave_test_util.h"

namespace attndb::index {
namespace {

using test::Found;
using test::TopicHead;

// So flat that no row starves (fair_share_test.cc).
constexpr kernels::LogitSpec kLogit = {5e-4f};

class WaveSearchTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  static constexpr size_t kKeys = 9000;
  static constexpr size_t kRows = TopicHead::kGroup;

  WaveSearchTest()
      : head_(kKeys, 1, 4, GetParam()),
        wave_(*WaveKeys::Build({.keys = head_.keys(), .values = head_.keys(), .num_keys = kKeys},
                               {.num_rounds = 4})) {}

  IndexCall Call(std::span<const IndexRun> runs, size_t step, SearchSpec spec) const {
    spec.logit = kLogit;
    return head_.Call(runs, step, spec);
  }

  // The share of each cluster in the softmax over the scores of means, added up over rows.
  std::vector<double> PlainWorth(const IndexCall& call) const {
    const size_t num_clusters = wave_.sums().num_clusters;
    std::vector<double> worth(num_clusters);
    for (size_t r = 0; r < kRows; ++r) {
      std::vector<double> logits(num_clusters);
      for (size_t c = 0; c < num_clusters; ++c) {
        const std::vector<double> mean = test::RowOf(wave_.sums().keys, c);
        for (size_t d = 0; d < mean.size(); ++d) {
          logits[c] += double{kLogit.scale} * double{call.q[r * call.q_stride + d]} * mean[d];
        }
      }
      const double best = *std::ranges::max_element(logits);
      double sum = 0;
      for (const double logit : logits) sum += std::exp(logit - best);
      for (size_t c = 0; c < num_clusters; ++c) worth[c] += std::exp(logits[c] - best) / sum;
    }
    return worth;
  }

  // Keys of the clusters of most worth, until these hold so many.
  std::vector<uint32_t> PlainSelection(const std::vector<double>& worth, size_t num_wanted) const {
    std::vector<size_t> order(worth.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, std::ranges::greater(), [&](size_t c) { return worth[c]; });
    std::vector<uint32_t> keys;
    for (size_t i = 0; keys.size() < num_wanted; ++i) {
      for (const size_t key : test::KeysOf(wave_.sums(), order[i])) {
        keys.push_back(static_cast<uint32_t>(key));
      }
    }
    std::ranges::sort(keys);
    return keys;
  }

  TopicHead head_;
  const WaveKeys wave_;
};

TEST_P(WaveSearchTest, KeysOfTheClustersOfMostWorthAreScored) {
  const IndexRun run = head_.Run(wave_);
  for (size_t step = 0; step < 4; ++step) {
    for (const uint32_t k : {1u, 50u, 700u}) {
      const IndexCall call = Call({&run, 1}, step, {.k = k});
      const std::vector<uint32_t> plain = PlainSelection(PlainWorth(call), k);
      const Found found = test::Search(call);
      EXPECT_EQ(found.cost.rows_read, plain.size());
      EXPECT_EQ(found.cost.keys_scored, (wave_.sums().num_clusters + plain.size()) * kRows);
      const Found all = test::SearchAll(Call({&run, 1}, step, {.k = kKeys}));
      for (size_t r = 0; r < kRows; ++r) {
        ASSERT_EQ(found.tokens[r].size(), k);
        // No key that was scored and not found is better than one that was.
        float least = std::numeric_limits<float>::infinity();
        for (size_t i = 0; i < k; ++i) {
          EXPECT_TRUE(std::ranges::binary_search(plain, found.tokens[r][i]));
          EXPECT_NEAR(found.scores[r][i], all.scores[r][found.tokens[r][i]], 1e-3f);
          least = std::min(least, found.scores[r][i]);
        }
        for (const uint32_t key : plain) {
          if (std::ranges::binary_search(found.tokens[r], key)) continue;
          EXPECT_LE(all.scores[r][key], least + 1e-3f);
        }
      }
    }
  }
}

TEST_P(WaveSearchTest, AsManyAsThereAreAreAll) {
  const IndexRun run = head_.Run(wave_);
  for (const SearchSpec& spec : {SearchSpec{.k = kKeys}, SearchSpec{.k = uint32_t{1} << 30},
                                 SearchSpec{.k = kKeys - 1, .effort = 1000}}) {
    const Found found = test::Search(Call({&run, 1}, 0, spec));
    EXPECT_EQ(found.tokens[0].size(), std::min<size_t>(spec.k, kKeys));
    EXPECT_EQ(found.cost.rows_read, kKeys);
  }
}

TEST_P(WaveSearchTest, EffortFindsWhatFewClustersMissed) {
  const IndexRun run = head_.Run(wave_);
  double last = 0;
  for (const float effort : {1.0f, 8.0f, 200.0f}) {
    const IndexCall call = Call({&run, 1}, 2, {.k = 64, .effort = effort});
    const double recall = test::Recall(test::Search(call), test::SearchAll(call));
    EXPECT_GE(recall, last) << effort;
    last = recall;
  }
  EXPECT_EQ(last, 1.0);  // All keys were scored.
}

// Runs of a chain share the selection. A prefix hides later keys, and sinks hide earlier ones.
TEST_P(WaveSearchTest, OnlyVisibleKeysOfAllRunsAreFound) {
  std::vector<IndexRun> runs = {head_.Run(wave_), head_.Run(wave_)};
  runs[0].first_visible = 101;
  runs[1].num_visible = 1511;
  runs[1].first_token = kKeys;
  const Found found = test::Search(Call(runs, 0, {.k = 640}));
  ASSERT_EQ(found.tokens[0].size(), 640u);
  size_t in_second = 0;
  for (const uint32_t token : found.tokens[0]) {
    EXPECT_GE(token, 101u);
    EXPECT_LT(token, kKeys + 1511);
    in_second += token >= kKeys ? 1 : 0;
  }
  EXPECT_GT(in_second, 0u);
  EXPECT_EQ(test::Search(Call(runs, 0, {.k = 10410})).tokens[0].size(), 10410u);
  runs[1].first_visible = 1511;  // Sees nothing of it.
  EXPECT_EQ(test::Search(Call(runs, 0, {.k = 10410})).tokens[0].size(), kKeys - 101);
  runs[0].first_visible = kKeys;
  EXPECT_TRUE(test::Search(Call(runs, 0, {.k = 50})).tokens[0].empty());
}

TEST_P(WaveSearchTest, RowsThatAreNotFiniteHaveNoSay) {
  const IndexRun run = head_.Run(wave_);
  test::ExpectBadRowHasNoSay(Call({&run, 1}, 3, {.k = 256}));
}

INSTANTIATE_TEST_SUITE_P(Seeds, WaveSearchTest, ::testing::Values(1u, 2u));

// One cluster of all of them.
TEST(WaveKeysTest, EqualKeysAreFound) {
  const std::vector<float> rows(3000 * TopicHead::kDim, 1.0f);
  const TopicHead head(3000, 1, 1, 1);
  const kernels::RowsView view = {rows.data(), TopicHead::kDim, TopicHead::kDim, DType::kFloat32};
  const WaveKeys wave = *WaveKeys::Build({.keys = view, .values = view, .num_keys = 3000}, {});
  EXPECT_EQ(wave.sums().num_clusters, 1u);
  const IndexRun run = {.index = &wave, .keys = view, .first_visible = 16, .num_visible = 3000};
  const Found found = test::Search(head.Call({&run, 1}, 0, {.k = 10, .logit = kLogit}));
  EXPECT_EQ(found.tokens[0].size(), 10u);
}

}  // namespace
}  // namespace attndb::index
