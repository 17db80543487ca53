// Goal:   a search by product codes gives a group one selection, with exact scores: the keys that
//         rank highest for any of its rows, by their codes.
// Method: keys around topics, q rows near some of them; against exact scores of all.
// Replay: a test's seed is its parameter.
#include "index/pq/pq_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include "index/clustered/clusters_test_util.h"

namespace attndb::index {
namespace {

using test::Found;
using test::TopicHead;

PqIndex Build(const PlaneSource& source, size_t num_subspaces, size_t bits) {
  return PqIndex(
      *PqKeys::Build({.keys = source.keys, .num_keys = source.num_keys, .queries = source.queries},
                     {.num_subspaces = num_subspaces, .bits = bits}));
}

class PqIndexTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  static constexpr size_t kKeys = 4000;
  PqIndexTest() : head_(kKeys, 400, 4, GetParam()), index_(Build(head_.source(), 16, 8)) {}

  // Returns the share of the exact results that was found.
  static double Recall(const Found& found, const Found& exact) {
    double hits = 0;
    double all = 0;
    for (size_t r = 0; r < exact.tokens.size(); ++r) {
      const std::set<uint32_t> tokens(found.tokens[r].begin(), found.tokens[r].end());
      for (const uint32_t token : exact.tokens[r]) hits += tokens.contains(token) ? 1 : 0;
      all += static_cast<double>(exact.tokens[r].size());
    }
    return hits / all;
  }

  TopicHead head_;
  PqIndex index_;
};

TEST_P(PqIndexTest, OneSelectionServesTheGroup) {
  const IndexRun run = head_.Run(index_);
  const IndexCall call = head_.Call({&run, 1}, 0, {.k = 100});
  const Found found = test::Search(call);
  for (const std::vector<uint32_t>& tokens : found.tokens) {
    EXPECT_EQ(tokens.size(), 100u);
    EXPECT_EQ(tokens, found.tokens[0]);
  }
  EXPECT_EQ(found.cost.rows_read, 100u);
  EXPECT_EQ(found.cost.keys_scored, kKeys * call.num_q_rows);
}

TEST_P(PqIndexTest, ScoresAreExact) {
  const IndexRun run = head_.Run(index_);
  const IndexCall call = head_.Call({&run, 1}, 1, {.k = 60});
  const Found found = test::Search(call);
  std::vector<float> exact(kKeys);
  for (size_t r = 0; r < call.num_q_rows; ++r) {
    kernels::ScoreRows(run.keys, kKeys, call.q + r * call.q_stride, call.q_stride, 1, exact.data(),
                       exact.size());
    for (size_t i = 0; i < found.tokens[r].size(); ++i) {
      EXPECT_NEAR(found.scores[r][i], exact[found.tokens[r][i]], 1e-3f);
    }
  }
}

// Each row's best keys are among several times as many that are scored exactly.
TEST_P(PqIndexTest, EffortFindsWhatCodesMissed) {
  const IndexRun run = head_.Run(index_);
  double last = 0;
  for (const float effort : {1.0f, 4.0f, 40.0f}) {
    const IndexCall call = head_.Call({&run, 1}, 2, {.k = 50, .effort = effort});
    const Found exact = test::SearchAll(call);
    const double recall = Recall(test::Search(call), exact);
    EXPECT_GE(recall, last) << effort;
    last = recall;
  }
  EXPECT_GT(last, 0.98);
}

TEST_P(PqIndexTest, ARangeFindsNearlyAllThatLieInIt) {
  const IndexRun run = head_.Run(index_);
  const IndexCall call =
      head_.Call({&run, 1}, 3, {.kind = SearchKind::kRange, .beta = 3.0f, .effort = 2.0f});
  const Found exact = test::SearchAll(call);
  const Found found = test::Search(call);
  EXPECT_GT(Recall(found, exact), 0.95);
  EXPECT_GT(Recall(exact, found), 0.999) << "found what lies outside";
}

// The found keys hold the share, by exact scores of all keys. If sinks and window hold it already,
// no key is needed. A non-finite row does not count.
TEST_P(PqIndexTest, AMassIsHeldByWhatIsFound) {
  const kernels::LogitSpec logit = {0.125f};
  const IndexRun run = head_.Run(index_);
  std::vector<float> exact(kKeys);
  for (const double p : {0.5, 0.9, 0.99}) {
    IndexCall call = head_.Call({&run, 1}, 1, {.kind = SearchKind::kMass, .p = p, .logit = logit});
    const std::vector<double> log_fixed(call.num_q_rows, 1.0);
    call.log_fixed = log_fixed.data();
    const Found found = test::Search(call);
    EXPECT_LT(found.tokens[0].size(), kKeys * 3 / 4) << p;
    for (size_t r = 0; r < call.num_q_rows; ++r) {
      EXPECT_EQ(found.tokens[r], found.tokens[0]);
      kernels::ScoreRows(run.keys, kKeys, call.q + r * call.q_stride, call.q_stride, 1,
                         exact.data(), exact.size());
      double all = std::exp(1.0);
      double held = all;
      for (const float score : exact) all += std::exp(double{logit.scale} * double{score});
      for (const uint32_t token : found.tokens[r]) {
        held += std::exp(double{logit.scale} * double{exact[token]});
      }
      EXPECT_GT(held / all, p - 0.02) << p << ", row " << r;
    }
    const std::vector<double> heavy(call.num_q_rows, 60.0);
    call.log_fixed = heavy.data();
    EXPECT_TRUE(test::Search(call).tokens[0].empty());
  }
}

// Runs of a chain share the selection. A prefix hides later keys, and sinks hide earlier ones.
TEST_P(PqIndexTest, OnlyVisibleKeysOfAllRunsAreFound) {
  const PqIndex other = Build(head_.source(), 8, 8);
  std::vector<IndexRun> runs = {head_.Run(index_), head_.Run(other)};
  runs[0].first_visible = 100;
  runs[1].num_visible = 1500;
  runs[1].first_token = kKeys;
  const Found found = test::Search(head_.Call(runs, 0, {.k = 80}));
  bool in_second = false;
  for (const uint32_t token : found.tokens[0]) {
    EXPECT_GE(token, 100u);
    EXPECT_LT(token, kKeys + 1500);
    in_second = in_second || token >= kKeys;
  }
  EXPECT_EQ(found.tokens[0].size(), 80u);
  EXPECT_TRUE(in_second);
}

TEST_P(PqIndexTest, MoreThanThereAreFindsAll) {
  IndexRun run = head_.Run(index_);
  run.num_visible = 70;
  EXPECT_EQ(test::Search(head_.Call({&run, 1}, 0, {.k = 500})).tokens[0].size(), 70u);
  run.first_visible = 70;
  EXPECT_TRUE(test::Search(head_.Call({&run, 1}, 0, {.k = 500})).tokens[0].empty());
}

// Weights are those of the scores that the codes give, within what bits of bfloat16 say.
TEST_P(PqIndexTest, WeightsAreThoseOfItsScores) {
  constexpr float kScale = 0.2f;
  constexpr size_t kFirst = 128;
  constexpr size_t kCount = 1000;
  constexpr size_t kStride = 1024;
  const IndexRun run = head_.Run(index_);
  const IndexCall call = head_.Call({&run, 1}, 1, {.k = 1});
  const size_t num_rows = call.num_q_rows;
  AlignedBuffer scratch = *AlignedBuffer::Allocate(index_.WeighScratchBytes(num_rows));
  std::vector<float> references(num_rows);
  std::vector<uint16_t> words(num_rows * kStride);
  std::vector<float> sums(num_rows * 16);
  index_.Weigh({.q = call.q,
                .q_stride = call.q_stride,
                .num_q_rows = num_rows,
                .logit_scale = kScale,
                .first_key = kFirst,
                .num_keys = kCount,
                .references = references.data(),
                .words = words.data(),
                .words_stride = kStride,
                .sums = sums.data(),
                .sums_stride = 16},
               scratch.data());
  AlignedBuffer memory = *AlignedBuffer::Allocate(index_.keys().QueryBytes(num_rows));
  const PqQueries queries = index_.keys().Prepare(call.q, call.q_stride, num_rows, memory.data());
  std::vector<float> scores(num_rows * kCount);
  index_.keys().Scan(queries, kFirst, kCount, scores.data(), kCount);
  for (size_t r = 0; r < num_rows; ++r) {
    double sum = 0;
    for (size_t i = 0; i < kCount; ++i) {
      const uint32_t bits = uint32_t{words[r * kStride + i]} << 16;
      const double weight = double{std::bit_cast<float>(bits)};
      const double log = double{kScale * scores[r * kCount + i]} - double{references[r]};
      ASSERT_NEAR(std::log(weight), log, 0.12) << r << " " << i;
      sum += weight;
    }
    const double summed = std::accumulate(&sums[r * 16], &sums[r * 16] + 16, 0.0);
    EXPECT_NEAR(summed, sum, 1e-4 * sum);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, PqIndexTest, ::testing::Values(1u, 2u));

}  // namespace
}  // namespace attndb::index
