// Goal:   a search selects whole blocks, those that the papers' scores rank highest for the group.
//         It scores their keys exactly and finds no hidden key.
// Method: keys around topics, q rows near some of them; against a selection in float64 by sorting.
// Replay: a test's seed is its parameter.
#include "index/coarse/block_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <vector>

#include "index/clustered/clusters_test_util.h"
#include "kernels/convert.h"

namespace attndb::index {
namespace {

using test::Found;
using test::TopicHead;

// No row starves by it (fair_share_test.cc): its weights are nearly equal.
constexpr kernels::LogitSpec kFlat = {1e-5f};

constexpr BlockForm kPages = {.summary = BlockSummary::kBounds, .block_keys = 16};
constexpr BlockForm kRepresented = {
    .summary = BlockSummary::kRepresentatives, .block_keys = 64, .num_representatives = 4};

BlockKeys Build(const TopicHead& head, const BlockForm& form) {
  const PlaneSource source = head.source();
  return *BlockKeys::Build(
      {.keys = source.keys, .num_keys = source.num_keys, .queries = source.queries}, form);
}

class BlockSearchTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  static constexpr size_t kKeys = 4000;
  static constexpr size_t kRows = TopicHead::kGroup;

  BlockSearchTest()
      : head_(kKeys, 400, 4, GetParam()),
        pages_(Build(head_, kPages)),
        represented_(Build(head_, kRepresented)) {}

  std::vector<const BlockKeys*> both() const { return {&pages_, &represented_}; }

  // The worth of each block to the group, in float64, except the rows of representatives, which
  // another test compares.
  std::vector<double> PlainWorth(const BlockKeys& keys, const IndexCall& call) const {
    const size_t num_blocks = keys.shape().num_blocks();
    const bool is_bounds = keys.shape().form.summary == BlockSummary::kBounds;
    std::vector<double> worth(num_blocks, is_bounds ? -1e300 : 0.0);
    for (size_t r = 0; r < kRows; ++r) {
      std::vector<double> scores(num_blocks);
      for (size_t b = 0; b < num_blocks; ++b) {
        scores[b] = PlainScore(keys, b, call.q + r * call.q_stride);
      }
      const double best = *std::ranges::max_element(scores);
      for (size_t b = 0; b < num_blocks; ++b) {
        worth[b] = is_bounds ? std::max(worth[b], scores[b] - best) : worth[b] + scores[b];
      }
    }
    return worth;
  }

  double PlainScore(const BlockKeys& keys, size_t block, const float* q) const {
    double sum = 0;
    if (keys.shape().form.summary == BlockSummary::kRepresentatives) {
      const auto* const row =
          reinterpret_cast<const float*>(keys.bytes().data() + kBlocksHeaderBytes) +
          block * TopicHead::kDim;
      for (size_t d = 0; d < TopicHead::kDim; ++d) sum += double{q[d]} * double{row[d]};
      return sum;
    }
    const size_t first = block * keys.block_keys();
    const size_t end = std::min(first + keys.block_keys(), kKeys);
    const auto* const bits = static_cast<const uint16_t*>(head_.keys().data);
    for (size_t d = 0; d < TopicHead::kDim; ++d) {
      double most = -1e300;
      for (size_t i = first; i < end; ++i) {
        const float k = kernels::ToFloat32(bits[i * TopicHead::kDim + d], DType::kFloat16);
        most = std::max(most, double{q[d]} * double{k});
      }
      sum += most;
    }
    return sum;
  }

  struct Plain {
    std::vector<uint32_t> tokens;
    size_t num_blocks = 0;
  };

  // Blocks of most worth, as long as another whole one fits into `room`, and one in any case.
  static Plain PlainSelection(const std::vector<double>& worth, size_t room, size_t block_keys) {
    std::vector<size_t> order(worth.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, std::ranges::greater(), [&](size_t b) { return worth[b]; });
    Plain plain;
    do {
      const size_t first = order[plain.num_blocks++] * block_keys;
      for (size_t t = first; t < std::min(first + block_keys, kKeys); ++t) {
        plain.tokens.push_back(static_cast<uint32_t>(t));
      }
    } while (plain.tokens.size() + block_keys <= room);
    std::ranges::sort(plain.tokens);
    return plain;
  }

  TopicHead head_;
  const BlockKeys pages_;
  const BlockKeys represented_;
};

TEST_P(BlockSearchTest, TheBlocksOfMostWorthAreSelectedWhole) {
  for (const BlockKeys* keys : both()) {
    const size_t block = keys->block_keys();
    const IndexRun run = head_.Run(*keys);
    for (size_t step = 0; step < 4; ++step) {
      // A number that is no multiple of the block leaves its rest out.
      const auto k = static_cast<uint32_t>(7 * block - 1);
      const IndexCall call = head_.Call({&run, 1}, step, {.k = k, .logit = kFlat});
      const Found found = test::Search(call);
      const Plain plain = PlainSelection(PlainWorth(*keys, call), k, block);
      for (const std::vector<uint32_t>& tokens : found.tokens) EXPECT_EQ(tokens, plain.tokens);
      EXPECT_EQ(found.cost.rows_read, plain.tokens.size());
      EXPECT_EQ(found.cost.clusters, plain.num_blocks);
      EXPECT_EQ(found.cost.keys_scored, (keys->shape().num_blocks() + plain.tokens.size()) * kRows);
    }
  }
}

TEST_P(BlockSearchTest, ScoresAreExact) {
  std::vector<float> exact(kKeys);
  for (const BlockKeys* keys : both()) {
    const IndexRun run = head_.Run(*keys);
    const IndexCall call = head_.Call({&run, 1}, 1, {.k = 200});
    const Found found = test::Search(call);
    for (size_t r = 0; r < kRows; ++r) {
      kernels::ScoreRows(run.keys, kKeys, call.q + r * call.q_stride, call.q_stride, 1,
                         exact.data(), exact.size());
      for (size_t i = 0; i < found.tokens[r].size(); ++i) {
        EXPECT_NEAR(found.scores[r][i], exact[found.tokens[r][i]], 1e-3f);
      }
    }
  }
}

// Fewer keys than a block: the best of the block of most worth. As many as there are: all.
TEST_P(BlockSearchTest, AnyNumberIsFound) {
  for (const BlockKeys* keys : both()) {
    const IndexRun run = head_.Run(*keys);
    const IndexCall one = head_.Call({&run, 1}, 0, {.k = 1, .logit = kFlat});
    const Plain block = PlainSelection(PlainWorth(*keys, one), 1, keys->block_keys());
    const Found found = test::Search(one);
    for (const std::vector<uint32_t>& tokens : found.tokens) {
      ASSERT_EQ(tokens.size(), 1u);
      EXPECT_TRUE(std::ranges::binary_search(block.tokens, tokens[0]));
    }
    for (const uint32_t k : {uint32_t{kKeys}, uint32_t{1} << 30}) {
      EXPECT_EQ(test::Search(head_.Call({&run, 1}, 0, {.k = k})).tokens[1].size(), kKeys);
    }
    EXPECT_EQ(test::Search(head_.Call({&run, 1}, 0, {.k = kKeys, .effort = 1000})).tokens[0].size(),
              kKeys);
  }
}

// Each row's best keys are among several times as many that are scored exactly.
TEST_P(BlockSearchTest, EffortFindsWhatWholeBlocksMissed) {
  for (const BlockKeys* keys : both()) {
    const IndexRun run = head_.Run(*keys);
    double last = 0;
    for (const float effort : {1.0f, 8.0f, 80.0f}) {
      const IndexCall call = head_.Call({&run, 1}, 2, {.k = 64, .effort = effort});
      const Found exact = test::SearchAll(call);
      const Found found = test::Search(call);
      double hits = 0;
      for (size_t r = 0; r < kRows; ++r) {
        std::vector<uint32_t> common;
        std::ranges::set_intersection(found.tokens[r], exact.tokens[r], std::back_inserter(common));
        hits += static_cast<double>(common.size());
        EXPECT_EQ(found.tokens[r].size(), 64u);
      }
      EXPECT_GE(hits, last) << effort;
      last = hits;
    }
    EXPECT_EQ(last, 64.0 * kRows);  // All keys were scored.
  }
}

// Runs of a chain share the selection. A prefix hides later keys, and sinks hide earlier ones, also
// where that cuts blocks.
TEST_P(BlockSearchTest, OnlyVisibleKeysOfAllRunsAreFound) {
  for (const BlockKeys* keys : both()) {
    std::vector<IndexRun> runs = {head_.Run(*keys), head_.Run(*keys)};
    runs[0].first_visible = 101;
    runs[1].num_visible = 1511;
    runs[1].first_token = kKeys;
    const Found found = test::Search(head_.Call(runs, 0, {.k = 640}));
    size_t in_second = 0;
    for (const uint32_t token : found.tokens[0]) {
      EXPECT_GE(token, 101u);
      EXPECT_LT(token, kKeys + 1511);
      in_second += token >= kKeys ? 1 : 0;
    }
    EXPECT_GT(found.tokens[0].size(), 640 - keys->block_keys());
    EXPECT_LE(found.tokens[0].size(), 640u);
    EXPECT_GT(in_second, 0u);
    EXPECT_EQ(test::Search(head_.Call(runs, 0, {.k = 5410})).tokens[0].size(), 5410u);
    runs[1].first_visible = 1511;  // Sees nothing of it.
    EXPECT_EQ(test::Search(head_.Call(runs, 0, {.k = 5000})).tokens[0].size(), kKeys - 101);
    runs[0].first_visible = kKeys;
    EXPECT_TRUE(test::Search(head_.Call(runs, 0, {.k = 50})).tokens[0].empty());
  }
}

TEST_P(BlockSearchTest, RowsThatAreNotFiniteHaveNoSay) {
  for (const BlockKeys* keys : both()) {
    const IndexRun run = head_.Run(*keys);
    test::ExpectBadRowHasNoSay(head_.Call({&run, 1}, 3, {.k = 256}));
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, BlockSearchTest, ::testing::Values(1u, 2u));

}  // namespace
}  // namespace attndb::index
